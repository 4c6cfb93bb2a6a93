"""The files in the log folder: crash reports, and the debug log of the context engine."""
