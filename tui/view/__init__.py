"""Events become blocks, and lists become rows. Pure."""
