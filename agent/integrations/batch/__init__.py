"""Batch runs: many tasks from a file, each in its own session. `batch` runs each task once, within a shared
budget; `tasks`, `journal` and `worktrees` handle the task file, the progress and the Git worktrees. The command is in
`tui/integrations/batch/command.py`."""
