"""The terminal in lines."""
