"""How likely an output is wanted again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import ToolCall
from ebbtide.agent.view.recalls import CONTENT_CURVES, content_kind, reuse_probability
from ebbtide.tools.tool_traits import OutputContent

CONTENTS = st.sampled_from(["file", *CONTENT_CURVES])


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


@given(CONTENTS, st.integers(0, 100_000), st.integers(0, 1_000), st.booleans())
def test_a_chance_is_one_and_fades_while_an_output_is_idle(
    content: OutputContent, tokens: int, idle: int, is_stale: bool
) -> None:
    now, later = (reuse_probability(content, tokens, at, is_stale=is_stale) for at in (idle, idle + 1))
    assert 0 <= later <= now < 1


@given(st.integers(0, 100_000), st.integers(3, 40))
def test_a_file_that_is_as_it_was_read_is_wanted_most(tokens: int, age: int) -> None:
    whole, stale = (reuse_probability("file", tokens, age, is_stale=is_stale) for is_stale in (False, True))
    programs = reuse_probability("program", tokens, age, is_stale=False)
    assert programs < stale < whole
