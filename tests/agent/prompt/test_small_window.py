from typing import Any, cast

from ebbtide.agent.prompt.small_window import tools_for_window
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.window.deferral import create_specs
from ebbtide.tools.catalog import create_builtin_tools

OWN = create_specs(create_builtin_tools())
SERVED = ToolSpec("mcp__tracker__todo", "Keeps todos.", {"type": "object", "properties": {}}, "mcp")


def names(effective: int) -> list[str]:
    return [spec.name for spec in tools_for_window((*OWN, SERVED), effective)]


def test_a_window_with_room_is_offered_all() -> None:
    assert tools_for_window((*OWN, SERVED), 32_000) == (*OWN, SERVED)


def test_a_medium_window_goes_without_patches() -> None:
    unpatched = tuple(spec for spec in (*OWN, SERVED) if spec.name != "apply_patch")
    assert tools_for_window((*OWN, SERVED), 31_999) == tools_for_window((*OWN, SERVED), 16_000) == unpatched


def test_a_small_window_keeps_what_brings_outputs_back_and_what_finds_tools() -> None:
    found = ["tool_search", "call_tool", "mcp__tracker__todo"]
    assert names(15_999) == names(5_000)
    few = ["read", "write", "edit", "bash"]
    jobs, recall = ["bash_output", "bash_kill"], ["read_result", "recall"]
    assert names(5_000) == [*few, *jobs, "glob", "grep", *recall, *found]
    assert names(3_900) == [*few, *recall, *found]


def test_a_small_model_has_six_tools_in_few_words_whatever_its_window() -> None:
    led = tools_for_window((*OWN, SERVED), 100_000, is_small_model=True)
    few = ["read", "write", "edit", "bash", "read_result", "recall"]
    assert [spec.name for spec in led] == [*few, "tool_search", "call_tool", SERVED.name]
    assert [list(cast(dict[str, Any], spec.schema["properties"])) for spec in led[:6]] == [
        ["path"], ["path", "content"], ["path", "old", "new", "replace_all"], ["command"],
        ["ref_id", "lines", "pattern"], ["ref_id", "lines", "query"],
    ]  # fmt: skip


def test_short_definitions_ask_only_for_arguments_that_the_whole_ones_take() -> None:
    whole = {spec.name: spec for spec in OWN}
    for spec in tools_for_window(OWN, 5_000):
        own, full = spec.schema["properties"], whole[spec.name].schema["properties"]
        assert isinstance(own, dict)
        assert isinstance(full, dict)
        assert own.items() <= full.items()
        assert spec.schema["required"] == whole[spec.name].schema["required"]
        assert len(spec.description) <= len(whole[spec.name].description)
