"""What each slash command does on the screen."""
