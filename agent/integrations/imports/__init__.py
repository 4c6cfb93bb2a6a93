"""Imports MCP servers, settings and transcripts from other coding agents. The files are read where those agents store
them, and each kind of file has its own reader."""
