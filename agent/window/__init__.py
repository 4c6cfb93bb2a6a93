"""The context window of a session: `SessionContext` and its five parts, the measurement of the next request, its prefix
and its deferred tools."""
