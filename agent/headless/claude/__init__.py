"""Claude Code's stream of JSON lines, for programs that are written for it: what they say, and what we tell in it.
`messages` is pure; what has no meaning here is refused by name."""
