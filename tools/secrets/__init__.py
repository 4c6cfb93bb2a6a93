"""Secrets: told in texts by their form and by value, taken out of them; which files hold some. Pure."""
