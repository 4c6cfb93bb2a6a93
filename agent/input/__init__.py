"""User input turned into messages, and the system prompt."""
