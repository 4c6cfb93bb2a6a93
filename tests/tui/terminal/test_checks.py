"""What the doctor says of a terminal."""

import pytest

from ebbtide.tui.terminal.checks import terminal_finding


@pytest.mark.parametrize(
    ("environment", "size", "state", "words"),
    [
        (
            {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "de_DE.UTF-8"},
            (120, 40),
            "well",
            "xterm-256color, 120 × 40, 16 million colours, UTF-8",
        ),
        (
            {"TERM": "screen-256color", "LANG": "C"},
            (80, 24),
            "well",
            "screen-256color, 80 × 24, 256 colours (`COLORTERM=truecolor` where it has more), "
            "letters only, as the locale has no UTF-8",
        ),
        (
            {"TERM": "vt100", "NO_COLOR": "1"},
            (39, 24),
            "note",
            "vt100, 39 × 24, no colours, as NO_COLOR says, UTF-8",
        ),
        ({"TERM": "dumb"}, (80, 24), "note", "TERM is `dumb`: `ebb` speaks in lines there, as with `--plain`"),
        ({}, (80, 24), "note", "TERM is not set: `ebb` speaks in lines there, as with `--plain`"),
    ],
)
def test_a_terminal_is_described(environment: dict[str, str], size: tuple[int, int], state: str, words: str) -> None:
    found = terminal_finding(environment, *size)
    assert (found.state, found.text) == (state, words)
