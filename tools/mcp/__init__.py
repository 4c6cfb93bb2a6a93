"""The client for MCP servers, over standard input and output or HTTP."""
