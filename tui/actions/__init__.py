"""The slash commands, for the full-screen interface and line mode."""
