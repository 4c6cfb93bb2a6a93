"""Groups of tools, for providers whose search looks for groups."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent.context.groups import LONGEST, MOST, Group, groups_of

parts = st.text("ab_2", min_size=1, max_size=40)
names = st.lists(
    st.one_of(parts, st.builds("mcp__{}__{}".format, parts, parts), parts.map("mcp__".__add__)), unique=True
)


@given(names)
def test_every_tool_is_in_one_small_group_with_a_name_of_its_own(tools: list[str]) -> None:
    groups = groups_of(tools)
    assert list(groups) and set(groups) == set(tools) if tools else not groups
    sizes = Counter(group.name for group in groups.values())
    assert len(sizes) == len(set(groups.values()))
    assert all(0 < len(name) <= LONGEST and name not in tools for name in sizes)
    assert max(sizes.values(), default=0) <= MOST
    assert groups_of(tools) == groups


def test_a_group_is_named_after_its_server_and_tells_what_is_in_it() -> None:
    tools = [f"mcp__desk__ask_{number}" for number in range(12)]
    groups = groups_of([*tools, "weather", "mcp__b"])
    first = Group("mcp__desk", f"Tools of desk: {', '.join(f'ask_{number}' for number in range(10))}")
    second, others = Group("mcp__desk_2", "Tools of desk: ask_10, ask_11"), Group("tools", "Tools: weather, mcp__b")
    assert list(groups.values()) == [*[first] * 10, *[second] * 2, others, others]


def test_the_group_of_a_tool_does_not_depend_on_tools_of_other_servers() -> None:
    tools = [f"mcp__desk__ask_{number}" for number in range(12)]
    alone, among = groups_of(tools), groups_of(["mcp__chat__send", *tools, "mcp__files__list"])
    assert [among[name] for name in tools] == list(alone.values())
