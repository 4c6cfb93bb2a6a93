"""Whether settings, folders, the store and every reference are as they should be, and a damaged database repaired."""
