"""Which tools are offered and which are held back."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import ToolCall
from ebbtide.agent.prompt.tool_selection import (
    MAX_GROUP_NAME_CHARS,
    MAX_GROUP_TOOLS,
    choose_deferred_tools,
    count_definition_tokens,
    group_tools,
    select_tools,
)
from ebbtide.agent.tool_specs import CALL_TOOL, SEARCH_TOOL, HostedSearch, ToolGroup, ToolKind, ToolSpec, unwrapped_call
from ebbtide.tools.call_tool import CallTool
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.tool_search import ToolSearch
from tests.kit.server_tools import served_tools

KINDS: tuple[ToolKind, ...] = ("builtin", "skill", "mcp")

FINDERS = (ToolSpec(SEARCH_TOOL, "finds" * 4, {}), ToolSpec(CALL_TOOL, "calls" * 4, {}))

kinds = st.sampled_from(KINDS)

specs = st.lists(
    st.builds(ToolSpec, st.text("abcdef", min_size=1, max_size=2), st.text(max_size=60), st.just({}), kinds)
)

uses = st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.floats(0, 3).map(round))


def size(spec: ToolSpec) -> int:
    return len(spec.name) + len(spec.description)


def taken(tools: tuple[ToolSpec, ...]) -> int:
    return sum(map(size, tools))


@given(specs, uses, st.integers(0, 400), st.booleans())
def test_what_is_offered_fits_or_nothing_more_could_be_held_back(
    found: list[ToolSpec], used: dict[str, float], most: int, finders: bool
) -> None:
    every = (*found, *FINDERS)
    deferred = choose_deferred_tools(every, most, size, used, offers_search=finders)
    offered, whole = select_tools(every, deferred, offers_search=finders), select_tools(every, offers_search=finders)
    may_go = {spec.name for spec in whole if spec.kind != "builtin"}
    assert deferred <= may_go
    assert taken(offered) <= max(taken(whole), most)
    if taken(whole) <= most:
        assert not deferred
    elif deferred:
        assert taken(offered) <= most or deferred == may_go
        assert taken(offered) < taken(whole)
    else:
        everything = select_tools(every, frozenset(may_go), offers_search=finders)
        assert not may_go or taken(everything) >= taken(whole) or taken(everything) > most


@given(specs, uses, st.integers(0, 400))
def test_the_order_never_changes_and_the_finders_come_with_what_is_held_back(
    found: list[ToolSpec], used: dict[str, float], most: int
) -> None:
    every = (*found, *FINDERS)
    deferred = choose_deferred_tools(every, most, size, used)
    names = list(dict.fromkeys(spec.name for spec in every))
    gone = deferred or {SEARCH_TOOL, CALL_TOOL}
    assert [spec.name for spec in select_tools(every, deferred)] == [name for name in names if name not in gone]
    assert choose_deferred_tools(every, most, size, used) == deferred


@given(specs, uses, st.integers(0, 400))
def test_tools_of_servers_go_before_those_of_skills_and_the_longest_unused_first(
    found: list[ToolSpec], used: dict[str, float], most: int
) -> None:
    every = (*found, *FINDERS)
    deferred = choose_deferred_tools(every, most, size, used)
    whole = select_tools(every)
    stays = [spec for spec in whole if spec.name not in deferred and spec.kind != "builtin"]
    for gone in (spec for spec in whole if spec.name in deferred):
        assert not (gone.kind == "skill" and any(spec.kind == "mcp" for spec in stays))
        same = [used.get(spec.name, -1.0) for spec in stays if spec.kind == gone.kind]
        assert all(used.get(gone.name, -1.0) <= other for other in same)


def test_what_is_seldom_needed_is_held_back_where_that_saves_something_and_is_named() -> None:
    read, served = ToolSpec("read", "", {}), ToolSpec("mcp__forge__list", "lists", {}, "mcp")
    rare = (ToolSpec("map", "m" * 90, {}, "rare"), ToolSpec("names", "n" * 90, {}, "rare"))
    every = (read, *rare, served, *FINDERS)
    deferred = choose_deferred_tools(every, 10_000, size, {})
    assert deferred == {"map", "names"}
    search, call = FINDERS
    named = replace(search, description=f"{search.description} Among them: map, names.")
    assert select_tools(every, deferred) == (read, served, named, call)
    short = tuple(replace(spec, description="") for spec in rare)
    assert choose_deferred_tools((read, *short, *FINDERS), 10_000, size, {}) == frozenset()
    assert choose_deferred_tools((read, *rare), 10_000, size, {}) == frozenset()


def test_where_more_may_come_the_finders_are_offered_from_the_start() -> None:
    every = (ToolSpec("a", "", {}, "mcp"), *FINDERS)
    assert select_tools(every, offers_search=True) == every
    assert select_tools(every, frozenset({"a"}), offers_search=True) == FINDERS


@given(specs, uses, st.integers(0, 400), st.sampled_from(["plain", "grouped"]), st.booleans())
def test_where_the_provider_searches_all_are_offered_and_what_is_held_back_is_deferred(
    found: list[ToolSpec], used: dict[str, float], most: int, search: HostedSearch, finders: bool
) -> None:
    every = (*found, *FINDERS)
    deferred = choose_deferred_tools(every, most, size, used, search, offers_search=finders)
    offered, whole = (
        select_tools(every, deferred, search, offers_search=finders),
        select_tools(every, offers_search=finders),
    )
    assert [spec.name for spec in offered] == [spec.name for spec in whole]
    assert {spec.name for spec in offered if spec.deferred_group is not None} == deferred
    if deferred:
        may_go = {spec.name for spec in whole if spec.kind != "builtin"}
        assert count_definition_tokens(offered, size) <= most or deferred == may_go
        assert count_definition_tokens(offered, size) < taken(whole)
        names = {spec.deferred_group.name for spec in offered if spec.deferred_group is not None}
        assert ("" in names) == (search == "plain")


@given(specs, uses, st.integers(0, 400), st.integers(4, 12), st.sampled_from(["none", "grouped"]), st.booleans())
def test_never_more_definitions_are_sent_than_the_provider_takes_while_any_may_be_held_back(
    found: list[ToolSpec], used: dict[str, float], most: int, limit: int, search: HostedSearch, finders: bool
) -> None:
    every = (*found, *FINDERS)
    deferred = choose_deferred_tools(every, most, size, used, search, offers_search=finders, max_tools=limit)
    offered = select_tools(every, deferred, search, offers_search=finders)
    groups = {spec.deferred_group.name for spec in offered if spec.deferred_group is not None}
    sent = sum(spec.deferred_group is None for spec in offered) + len(groups) + bool(groups)
    may_go = {spec.name for spec in select_tools(every) if spec.kind != "builtin"}
    assert sent <= limit or deferred == may_go
    if sent < limit - 3 and taken(select_tools(every, offers_search=finders)) <= most:
        assert not deferred


def test_of_what_nothing_could_find_no_more_is_held_back_than_the_provider_refuses() -> None:
    every = tuple(ToolSpec(name, "x" * 99, {}, "mcp") for name in "abcdefgh")
    assert choose_deferred_tools(every, 10, size, {"h": 1.0}, max_tools=5) == set("efg")


def test_of_tools_that_were_never_used_the_first_ones_stay() -> None:
    every = (*(ToolSpec(name, "x" * 99, {}, "mcp") for name in "abcdefgh"), *FINDERS)
    assert choose_deferred_tools(every, 370, size, {}) == set("defgh")
    assert choose_deferred_tools(every, 370, size, {"h": 2.0, "b": 1.0}) == set("cdefg")


def test_nothing_is_held_back_where_nothing_could_find_it() -> None:
    every = tuple(ToolSpec(name, "x" * 99, {}, "mcp") for name in "abcd")
    assert choose_deferred_tools(every, 10, size, {}) == frozenset()


def test_the_tools_that_find_others_bear_the_names_that_are_looked_for() -> None:
    assert (ToolSearch().name, CallTool().name) == (SEARCH_TOOL, CALL_TOOL)
    own = [ToolSpec(tool.name, tool.description, tool.schema) for tool in create_builtin_tools()]
    foreign = [ToolSpec(tool.name, tool.description, tool.schema, tool.kind) for tool in served_tools()]
    deferred = choose_deferred_tools((*own, *foreign), 0, size, {})
    assert select_tools((*own, *foreign), deferred) == tuple(own)


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}'])
def test_a_call_by_name_means_the_other_tool(arguments: object) -> None:
    call = ToolCall("c1", CALL_TOOL, {"name": "x", "arguments": arguments}, source="as it came")
    assert unwrapped_call(call) == ToolCall("c1", "x", {"a": 1})
    assert unwrapped_call(replace(call, arguments={"name": "x"})) == ToolCall("c1", "x", {})


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("c1", "read", {"name": "x", "arguments": {}}),
        ToolCall("c1", CALL_TOOL, {"name": 3, "arguments": {}}),
        ToolCall("c1", CALL_TOOL, {"name": "x", "arguments": [1]}),
        ToolCall("c1", CALL_TOOL, {"name": "x", "arguments": "not JSON"}),
        ToolCall("c1", CALL_TOOL, {"name": "x", "arguments": {}, "more": 1}),
        ToolCall("c1", CALL_TOOL, {"name": "x", "arguments": {}}, problem="it was cut off"),
    ],
)
def test_what_stands_for_no_call_stays_as_it_is(call: ToolCall) -> None:
    assert unwrapped_call(call) is call


parts = st.text("ab_2", min_size=1, max_size=40)

names = st.lists(
    st.one_of(parts, st.builds("mcp__{}__{}".format, parts, parts), parts.map("mcp__".__add__)), unique=True
)


@given(names)
def test_every_tool_is_in_one_small_group_with_a_name_of_its_own(tools: list[str]) -> None:
    groups = group_tools(tools)
    assert list(groups) and set(groups) == set(tools) if tools else not groups
    sizes = Counter(group.name for group in groups.values())
    assert len(sizes) == len(set(groups.values()))
    assert all(0 < len(name) <= MAX_GROUP_NAME_CHARS and name not in tools for name in sizes)
    assert max(sizes.values(), default=0) <= MAX_GROUP_TOOLS
    assert group_tools(tools) == groups


def test_a_group_is_named_after_its_server_and_tells_what_is_in_it() -> None:
    tools = [f"mcp__desk__ask_{number}" for number in range(12)]
    groups = group_tools([*tools, "weather", "mcp__b"])
    first = ToolGroup("mcp__desk", f"Tools of desk: {', '.join(f'ask_{number}' for number in range(10))}")
    second, others = (
        ToolGroup("mcp__desk_2", "Tools of desk: ask_10, ask_11"),
        ToolGroup("tools", "Tools: weather, mcp__b"),
    )
    assert list(groups.values()) == [*[first] * 10, *[second] * 2, others, others]


def test_the_group_of_a_tool_does_not_depend_on_tools_of_other_servers() -> None:
    tools = [f"mcp__desk__ask_{number}" for number in range(12)]
    alone, among = group_tools(tools), group_tools(["mcp__chat__send", *tools, "mcp__files__list"])
    assert [among[name] for name in tools] == list(alone.values())
