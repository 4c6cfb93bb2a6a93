"""Numbers, sanitising, fuzzy matching, styles, themes, unified diffs."""
