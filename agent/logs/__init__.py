"""The log folder's files: crash reports and the context engine's debug log."""
