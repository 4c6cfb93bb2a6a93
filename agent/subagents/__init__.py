"""Sub-agents: their definitions, how they are composed from their parent session's parts, and what they hand back."""
