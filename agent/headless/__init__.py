"""Headless runs: messages in, an answer or JSON lines out, and an exit code. `run` is the entry point, `result` the
outcome of a run; the output formats are in `text_output`, `json_output` and `claude/`. `driven_run` reads input lines
from a client program during the run, and `batch/` runs many tasks. docs/scripts.md documents what programs can rely on.
Only `status_line` draws, on stderr."""
