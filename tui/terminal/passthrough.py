"""Escape sequences for the terminal in which a multiplexer runs."""

from collections.abc import Mapping


def wrap_for_outer_terminal(sequence: str, environment: Mapping[str, str]) -> str:
    """Return the sequence, wrapped if the program runs in tmux. tmux drops wrapped sequences unless `allow-passthrough`
    is set."""
    if not environment.get("TMUX"):
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
