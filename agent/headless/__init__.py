"""A session without a terminal: messages in, an answer or JSON lines out, and an exit code. `run` does it; `result` is
what a run has come to; the formats are told apart in `text_output`, `json_output` and `claude/`. `driven_run` takes
lines of a program meanwhile. What a program can rely on is documented in docs/scripts.md. `batch/` does many tasks.
Nothing here draws but `status_line`, on stderr."""
