"""Results of tool calls: limits on the size of an answer, and stored content as tools read it."""
