"""`ebb models`."""
