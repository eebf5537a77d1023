"""Readouts solved in closed form."""
