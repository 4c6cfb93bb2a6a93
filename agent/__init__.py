"""The agent, independent of any user interface: sessions, turns, the context window, models, calls and records."""
