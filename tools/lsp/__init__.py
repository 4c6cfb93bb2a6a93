"""The client of language servers: one started, told of files, asked and closed, and those of a session together."""
