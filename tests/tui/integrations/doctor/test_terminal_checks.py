"""What the doctor says of a terminal."""

import pytest

from ebbtide.tui.integrations.doctor.terminal_checks import check_terminal


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
            "screen-256color, 80 × 24, 256 colours (set `COLORTERM=truecolor` if it supports more), "
            "ASCII only, because the locale is not UTF-8",
        ),
        (
            {"TERM": "vt100", "NO_COLOR": "1"},
            (39, 24),
            "note",
            "vt100, 39 × 24, no colours (NO_COLOR is set), UTF-8",
        ),
        ({"TERM": "dumb"}, (80, 24), "note", "TERM is `dumb`: `ebb` uses line mode, as with `--plain`"),
        ({}, (80, 24), "note", "TERM is not set: `ebb` uses line mode, as with `--plain`"),
    ],
)
def test_a_terminal_is_described(environment: dict[str, str], size: tuple[int, int], state: str, words: str) -> None:
    found = check_terminal(environment, *size)
    assert (found.state, found.text) == (state, words)
