"""Widgets, one a file, and what only they need: rows, search, caret."""
