"""Programs that are started, talked to and ended with all their children, and what they print."""
