"""`ebb doctor` and `/doctor`."""
