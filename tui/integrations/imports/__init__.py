"""`ebb import` and `ebb mcp import`: transcripts, settings and servers from other agents."""
