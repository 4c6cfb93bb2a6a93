"""`ebb import` and `ebb mcp import`: other agents' transcripts, settings and servers."""
