"""Events of a session as plain data: shown, printed and stored unchanged. `session` has the union of all; the other
modules cover permissions, plans, the view and sub-agents."""
