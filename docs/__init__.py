"""The documentation, and the code that generates parts of it."""
