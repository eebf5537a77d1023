"""How the server defends itself against bad clients: one file per defence."""
