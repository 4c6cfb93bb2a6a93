"""Escape sequences for the terminal that a multiplexer runs in."""

from collections.abc import Mapping


def wrap_for_outer_terminal(sequence: str, environment: Mapping[str, str]) -> str:
    """If the program runs in tmux, wrap the sequence for the outer terminal. tmux drops wrapped sequences unless
    `allow-passthrough` is set."""
    if not environment.get("TMUX"):
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
