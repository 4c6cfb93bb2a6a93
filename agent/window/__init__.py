"""The context window at work: measure, fit, compact, rewrite, edit, undo; `SessionContext`, the parts of a session."""
