"""Decides what leaves the view and when: maskable outputs, the cost of carrying them, and the user's settings."""
