"""Fits text into a width measured in terminal cells."""

from rich.cells import cell_len, set_cell_size


def fit_width(text: str, width: int) -> str:
    """Fit text into exactly `width` cells, by padding it or cutting it with an ellipsis."""
    return set_cell_size(text if cell_len(text) <= width else f"{set_cell_size(text, max(width - 1, 0))}…", width)


def wrap_words(text: str, width: int) -> list[str]:
    """Wrap text to lines of at most `width` cells, between words if possible."""
    lines = list[str]()
    line = ""
    for word in text.split(" "):
        if line and cell_len(line) + 1 + cell_len(word) <= width:
            line = f"{line} {word}"
            continue
        lines += [line] if line else []
        line = word
        while cell_len(line) > width > 0:
            end = next((end for end in range(1, len(line)) if cell_len(line[: end + 1]) > width), len(line))
            lines.append(line[:end])
            line = line[end:]
    return [*lines, line] if line or not lines else lines
