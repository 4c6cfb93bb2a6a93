"""Claude Code's JSON stream format for input and output, for programs written for it. Unsupported
requests are rejected by name."""
