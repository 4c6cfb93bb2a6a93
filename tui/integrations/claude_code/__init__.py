"""`ebb claude-code`: accepts the arguments of `claude -p`."""
