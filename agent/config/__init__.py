"""Configuration: merges files, environment and flags into one frozen `Config`, and edits the user's file and the files
stored per project."""
