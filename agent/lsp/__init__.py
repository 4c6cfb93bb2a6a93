"""Language servers of a session: finding them, trust, and diagnostics after edits."""
