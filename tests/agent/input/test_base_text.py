"""What every session is told at first: of which tools, to which models, and how much."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.input.base_text import FAMILY_LINES, ModelFamily, build_base_text, family_of
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.tool_traits import builtin_traits

MODELS = ("anthropic/claude-sonnet-5-5", "openai/gpt-5.6", "ollama/qwen2.5-coder:1.5b")
TOOLS = frozenset(tool.name for tool in create_builtin_tools())
USUAL = TOOLS - {"edit_notebook", "web_search", "tool_search", "call_tool"}


def named(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


@given(st.sampled_from(MODELS), st.frozensets(st.sampled_from(sorted(TOOLS))))
def test_only_tools_that_are_offered_are_named(model: str, missing: frozenset[str]) -> None:
    assert named(build_base_text(model, missing)) <= USUAL - missing


def test_each_family_is_told_with_which_tool_it_edits_best() -> None:
    editors = {"edit", "apply_patch", "write"}
    assert [named(build_base_text(model)) & editors for model in MODELS] == [
        editors,
        {"apply_patch"},
        {"edit", "write"},
    ]


def test_a_family_whose_tool_is_not_offered_is_told_of_another() -> None:
    without = build_base_text("openai/gpt-5.6", frozenset({"apply_patch"}))
    assert without == build_base_text("x/other", frozenset({"apply_patch"}))
    assert "edit" in named(without)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("openai/o3-mini", "gpt"),
        ("openai-chat/openai/gpt-oss-120b", "gpt"),
        ("openai/chatgpt-4o-latest", "gpt"),
        ("openai/codex-mini-latest", "gpt"),
        ("openai-chat/us.anthropic.Claude-Opus-5", "claude"),
        ("gemini/gemini-3-pro", "others"),
        ("ollama/olmo2:7b", "others"),
        ("openai-chat/foo1-pro", "others"),
        ("", "others"),
    ],
)
def test_a_model_is_known_by_its_name_whoever_serves_it(model: str, family: ModelFamily) -> None:
    assert family_of(model) == family


def test_it_stays_within_435_tokens_of_o200k() -> None:
    """Those are about 640 as they are estimated before anything was learned."""
    assert set(FAMILY_LINES) == {family_of(model) for model in MODELS}
    assert max(estimate_text(build_base_text(model)) for model in MODELS) <= 640


@pytest.mark.parametrize("model", MODELS)
def test_a_small_window_is_told_less_and_of_no_tool(model: str) -> None:
    short = build_base_text(model, is_short=True)
    assert len(short) < 0.55 * len(build_base_text(model))
    optional = {name for name, traits in builtin_traits().items() if traits.small_window_policy == "optional"}
    assert not ({*optional, "glob", "recall", "read_result"}) & set(re.findall(r"\w+", short))
