"""Imports MCP servers, settings and transcripts from other coding agents. The files are read in place, with one reader
per file."""
