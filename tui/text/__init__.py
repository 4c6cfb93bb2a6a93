"""Numbers, sanitising, fuzzy matching, styles, themes and unified diffs."""
