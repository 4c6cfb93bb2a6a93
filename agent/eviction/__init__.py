"""Decides what leaves the view and when. Finds outputs that can be masked, tracks the cost of carrying them, and
defines the user's settings."""
