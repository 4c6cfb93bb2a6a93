"""Adapters for the providers' APIs, one per wire, and what they share: HTTP, encoding, decoding, errors."""
