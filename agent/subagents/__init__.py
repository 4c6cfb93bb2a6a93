"""Agents that a session sends off: which there are, how one is composed from what its session may do, and
what it hands back."""
