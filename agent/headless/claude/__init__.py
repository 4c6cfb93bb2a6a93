"""Claude Code's JSON stream format, input and output, for programs written for it. `messages` is pure. Unsupported
requests are refused by name."""
