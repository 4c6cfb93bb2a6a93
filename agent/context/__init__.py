"""The model's view of the conversation: what it contains, what is removed from it, and what that costs. Pure."""
