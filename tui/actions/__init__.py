"""What each slash command does, in either terminal."""
