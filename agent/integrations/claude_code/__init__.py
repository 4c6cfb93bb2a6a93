"""Claude Code's JSON stream format, for programs written for Claude Code. Unsupported requests are refused with an
error that names them."""
