"""The client of MCP servers: one started, asked and closed, over its pipes or at its address."""
