"""`ebb serve`: the terminal in a browser."""
