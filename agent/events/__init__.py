"""Events of a session as plain data: shown, printed and stored unchanged. The module `session` contains the union of
all events; the other modules cover permissions, plans, the view and sub-agents."""
