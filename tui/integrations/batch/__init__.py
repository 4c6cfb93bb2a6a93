"""`ebb batch`: its arguments and progress."""
