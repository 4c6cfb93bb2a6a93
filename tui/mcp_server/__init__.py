"""`ebb mcp serve`: an MCP server on stdin and stdout with which other agents recall sessions and run tasks. It
imports no Textual."""
