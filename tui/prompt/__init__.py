"""The prompt's logic: history, completion, files, pastes and vi keys."""
