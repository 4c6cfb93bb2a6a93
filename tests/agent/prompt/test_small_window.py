from typing import Any, cast

from ebbtide.agent.prompt.small_window import tools_for_window
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.window.deferral import specs_of
from ebbtide.tools.catalog import builtin_tools

OWN = specs_of(builtin_tools())
SERVED = ToolSpec("mcp__tracker__todo", "Keeps todos.", {"type": "object", "properties": {}}, "mcp")


def names(effective: int, *, has_stored_outputs: bool = True) -> list[str]:
    return [spec.name for spec in tools_for_window((*OWN, SERVED), effective, has_stored_outputs=has_stored_outputs)]


def test_a_window_with_room_is_offered_all() -> None:
    assert tools_for_window((*OWN, SERVED), 32_000) == (*OWN, SERVED)


def test_tools_for_jobs_are_offered_in_a_small_window_once_there_is_a_job() -> None:
    without = tuple(spec for spec in (*OWN, SERVED) if spec.name not in ("bash_output", "bash_kill", "apply_patch"))
    assert tools_for_window((*OWN, SERVED), 31_999) == without
    assert tools_for_window((*OWN, SERVED), 16_000) == without
    unpatched = tuple(spec for spec in (*OWN, SERVED) if spec.name != "apply_patch")
    assert tools_for_window((*OWN, SERVED), 31_999, has_jobs=True) == unpatched
    with_jobs = {spec.name for spec in tools_for_window(OWN, 3_900, has_jobs=True)}
    assert with_jobs - {spec.name for spec in tools_for_window(OWN, 3_900)} == {"bash_output", "bash_kill"}


def test_a_small_window_keeps_what_brings_outputs_back_and_what_finds_tools() -> None:
    found = ["tool_search", "call_tool", "mcp__tracker__todo"]
    assert names(15_999) == names(5_000)
    assert names(5_000) == ["read", "write", "edit", "bash", "glob", "grep", "read_result", "recall", *found]
    assert names(3_900) == ["read", "write", "edit", "bash", "read_result", "recall", *found]


def test_a_small_model_has_four_tools_in_few_words_whatever_its_window() -> None:
    led = tools_for_window((*OWN, SERVED), 100_000, is_small_model=True)
    assert [spec.name for spec in led] == ["read", "write", "edit", "bash", "tool_search", "call_tool", SERVED.name]
    assert [list(cast(dict[str, Any], spec.schema["properties"])) for spec in led[:4]] == [
        ["path"], ["path", "content"], ["path", "old", "new", "replace_all"], ["command"],
    ]  # fmt: skip
    more = tools_for_window(OWN, 100_000, is_small_model=True, has_jobs=True, has_stored_outputs=True)
    extra = {"bash_output", "bash_kill", "read_result", "recall"}
    assert {spec.name for spec in more} - {spec.name for spec in led} == extra


def test_a_small_window_is_offered_what_brings_back_once_something_is_kept() -> None:
    finders = ["read_result", "recall"]
    for effective in (4_000, 15_999):
        assert [each for each in names(effective) if each not in names(effective, has_stored_outputs=False)] == finders
    assert names(16_000) == names(16_000, has_stored_outputs=False)
    assert names(3_999) == names(3_999, has_stored_outputs=False)


def test_short_definitions_ask_only_for_arguments_that_the_whole_ones_take() -> None:
    whole = {spec.name: spec for spec in OWN}
    for spec in tools_for_window(OWN, 5_000, has_stored_outputs=True):
        own, full = spec.schema["properties"], whole[spec.name].schema["properties"]
        assert isinstance(own, dict)
        assert isinstance(full, dict)
        assert own.items() <= full.items()
        assert spec.schema["required"] == whole[spec.name].schema["required"]
        assert len(spec.description) <= len(whole[spec.name].description)
