"""Stores and loads sessions: rows, recorder, resume, changed files, garbage collection."""
