"""Searches files and stored outputs, in processes that can be killed."""
