"""Stored content: lookup by reference, words or meaning; the session library, forks and export."""
