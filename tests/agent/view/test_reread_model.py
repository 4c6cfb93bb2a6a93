"""How likely an output is wanted again."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import ToolCall
from ebbtide.agent.view.recalls import REUSE_ODDS, TYPICAL_OUTPUT_TOKENS, ReuseOdds, content_kind
from ebbtide.tools.tool_traits import OutputContent

CONTENTS = st.sampled_from(get_args(OutputContent))


@pytest.mark.parametrize(
    ("tool", "command", "content"),
    [
        ("read", "", "file"),
        ("bash", "sed -n 1,80p a.py", "view"),
        ("bash", "make test", "program"),
        ("bash_output", "", "program"),
        ("grep", "", "search"),
        ("glob", "", "search"),
        ("task", "", "report"),
        ("apply_patch", "", "change"),
        ("mcp__tracker__list", "", "other"),
    ],
)
def test_what_an_output_shows_is_told_by_its_call(tool: str, command: str, content: OutputContent) -> None:
    assert content_kind(ToolCall("1", tool, {"command": command})) == content


@given(CONTENTS, st.integers(0, 100_000), st.integers(0, 1_000))
def test_a_chance_is_one_and_fades_while_an_output_is_idle(content: OutputContent, tokens: int, idle: int) -> None:
    now, later = (REUSE_ODDS.probability(content, tokens, at) for at in (idle, idle + 1))
    assert 0 <= later <= now < 1
    assert later < now or tokens == 0


@given(CONTENTS, st.integers(0, 100_000), st.integers(1, 100_000), st.integers(0, 1_000))
def test_more_text_is_more_likely_wanted(content: OutputContent, tokens: int, more: int, idle: int) -> None:
    less, greater = (REUSE_ODDS.probability(content, size, idle) for size in (tokens, tokens + more))
    assert less < greater


@given(st.integers(1, 100_000), st.integers(0, 1_000))
def test_a_file_is_wanted_most_and_what_a_program_printed_least(tokens: int, idle: int) -> None:
    chances = {content: REUSE_ODDS.probability(content, tokens, idle) for content in get_args(OutputContent)}
    assert chances["program"] == chances["change"] == chances["other"]
    assert chances["program"] < chances["search"] == chances["report"] < chances["file"] == chances["view"]


def test_the_odds_are_the_level_times_powers_of_size_and_idle_time() -> None:
    odds = ReuseOdds(file=0.5, search=0.25, other=1.0, size_exponent=0.5, idle_exponent=2.0)
    assert odds.probability("file", TYPICAL_OUTPUT_TOKENS, 0) == pytest.approx(1 / 3)
    assert odds.probability("search", 4 * TYPICAL_OUTPUT_TOKENS, 0) == pytest.approx(1 / 3)
    assert odds.probability("program", TYPICAL_OUTPUT_TOKENS, 1) == pytest.approx(1 / 5)
