"""Renders blocks, Markdown and diffs as terminal lines."""
