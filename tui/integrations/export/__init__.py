"""Exporting and importing sessions: `ebb sessions export` and `import`, and `/export`."""
