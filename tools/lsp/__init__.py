"""The client for language servers: single servers and the pool of a session."""
