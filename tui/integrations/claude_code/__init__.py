"""`ebb claude-code`: the arguments of `claude -p`."""
