"""Widgets, one per file, with their helpers."""
