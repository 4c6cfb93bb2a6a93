"""Files as they were before the agent changed them: seen, kept, planned to come back, brought back."""
