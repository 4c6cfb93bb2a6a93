"""Sequences for the terminal that is behind a multiplexer."""

from collections.abc import Mapping


def through(sequence: str, environment: Mapping[str, str]) -> str:
    """The sequence as the terminal itself gets it. Inside of tmux that takes `allow-passthrough`; it is left out there
    when that is off."""
    if not environment.get("TMUX"):
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
