"""What happens in a session, as it happens: plain data, shown, printed and stored unchanged. `session` has the union of
all; the others what happens to a plan, to the view and to agents that were sent off."""
