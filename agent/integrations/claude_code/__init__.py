"""Claude Code's JSON stream format for input and output, for programs written for it. `messages` is pure. Unsupported
requests are rejected by name."""
