"""`ebb review`."""
