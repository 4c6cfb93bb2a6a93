"""MCP servers of a session: declared, approved, running, and their questions."""
