"""A request that failed for now: one line counts down, and goes away."""

from pathlib import Path

import pytest

from ebbtide.agent.errors import Overloaded, ProviderError, RateLimited, StreamCut, TimedOut, Unreachable
from ebbtide.agent.providers.stream import short_failure_reason
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.pty_terminal import SAYS, left_behind, ready


def test_a_server_that_is_overloaded_is_one_line_until_it_answers(tmp_path: Path) -> None:
    busy = Turn(status=529, headers={"retry-after": "2"})
    with FakeProvider([busy, Turn(text="Here it is.")]) as server:
        flags = ["-m", "anthropic/claude-sonnet-5-5"]
        with ready(tmp_path, SAYS, flags=flags, env=server.environment) as terminal:
            terminal.send("go\r", until="Overloaded (529) · retrying in 2s, attempt 2 · Esc to stop")
            assert terminal.text.count("529") == 1
            terminal.until("retrying in 1s")
            terminal.until("Here it is.")
            assert "529" not in terminal.text
            left_behind(terminal)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Overloaded("x", status=529), "Overloaded (529)"),
        (Overloaded("x", status=200), "Server error"),
        (Overloaded("x", status=502), "Server error (502)"),
        (RateLimited("x", status=429), "Too many requests (429)"),
        (TimedOut("x"), "No response"),
        (Unreachable("x"), "No connection"),
        (StreamCut("x"), "Reply cut off"),
    ],
)
def test_the_line_says_why_in_a_few_words(error: ProviderError, reason: str) -> None:
    assert short_failure_reason(error) == reason
