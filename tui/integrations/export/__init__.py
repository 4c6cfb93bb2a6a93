"""Exports of sessions: `ebb sessions export` and `import`, and `/export`."""
