"""The agent without an interface: sessions, turns, the context window, models, calls and records."""
