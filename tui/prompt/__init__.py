"""What is typed: history, completion, files, pastes, vi keys."""
