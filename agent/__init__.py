"""The agent without a front end: sessions, turns, the context window, models, calls, records."""
