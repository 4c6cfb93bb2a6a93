"""A tool call from wish to output: policy, approval, run, and what of its output is shown."""
