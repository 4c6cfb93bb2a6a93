"""How requests, replies and errors travel: one adapter a wire, and what adapters share."""
