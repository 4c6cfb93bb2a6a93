"""`ebb acp`: sessions for editors, over the Agent Client Protocol on stdin and stdout. Views and questions use the
same values as the interface; only this folder imports the protocol's library."""
