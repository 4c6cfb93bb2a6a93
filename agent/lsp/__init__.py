"""Language servers of a session: which there are, which of them may run, and what an edit is told by them."""
