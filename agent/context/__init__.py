"""What the model is shown, what leaves it, and what that costs. Pure."""
