"""`ebb doctor`: checks settings, folders, the store and all references, and repairs a damaged database."""
