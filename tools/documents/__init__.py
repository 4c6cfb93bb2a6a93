"""Converts untrusted documents to text, in processes with limited time and memory."""
