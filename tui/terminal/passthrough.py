"""Escape sequences for the terminal behind a multiplexer."""

from collections.abc import Mapping


def through(sequence: str, environment: Mapping[str, str]) -> str:
    """The sequence wrapped for tmux if necessary, which needs `allow-passthrough`; tmux drops it otherwise."""
    if not environment.get("TMUX"):
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
