"""MCP servers of a session: declarations, approval, running servers and their requests to the user."""
