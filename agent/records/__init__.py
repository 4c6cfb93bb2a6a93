"""A session written down and read back: rows, recorder, resume, files it changed."""
