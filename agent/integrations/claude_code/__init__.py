"""Claude Code's JSON stream format, for programs written for Claude Code. Unsupported requests are rejected by name."""
