"""Federated Echo State Networks for stress prediction from wearable sensors."""

__version__ = "0.1.0"
