"""Batch runs: many tasks from a file, each in its own session. Contains the task file, the journal and the worktrees.
`batch` runs each task once, within one budget; the command is in `tui/cli/batch.py`."""
