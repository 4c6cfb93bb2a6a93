"""Blocks, markdown and diffs as lines of the terminal."""
