"""The context window at work: measure, fit, compact, rewrite, edit, undo; `Env`, what a session is made of."""
