"""Results of tool calls: limits on what one answer shows, and stored content as tools read it."""
