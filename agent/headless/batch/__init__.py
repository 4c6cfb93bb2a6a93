"""Many tasks, each a session of its own: the file that names them, what is remembered of them until each is done, and
their work trees. `batch` has them done, once each, within one budget; the command is `tui/cli/batch.py`."""
