"""Starts programs, communicates with them, and ends them with all their children."""
