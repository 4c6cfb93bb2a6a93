"""`ebb key sign-in`."""
