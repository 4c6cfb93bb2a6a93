"""`ebb serve`: the interface in a browser."""
