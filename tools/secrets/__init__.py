"""Detects secrets in texts, by format and by value, redacts them, and knows which files contain some. Pure."""
