"""Texts in places of a certain width."""

from rich.cells import cell_len, set_cell_size


def fitted(text: str, width: int) -> str:
    """The text in just so many cells: with blanks behind it, or cut, which its last cell says."""
    return set_cell_size(text if cell_len(text) <= width else f"{set_cell_size(text, max(width - 1, 0))}…", width)
