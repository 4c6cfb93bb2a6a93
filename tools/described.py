"""The text that a model reads about a tool: the `.md` file beside the tool's module."""

from pathlib import Path


def description_beside(module_file: str) -> str:
    return Path(module_file).with_suffix(".md").read_text(encoding="utf-8").strip()
