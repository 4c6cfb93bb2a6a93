"""Five hundred tools of ten servers: they are found, they take little of the window, and the array stays the same."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from bench.tools.catalog import CatalogTool, offered_tools
from bench.tools.measure import (
    SEARCH_PROVIDERS,
    WINDOW_SIZES,
    measure_search,
    measure_share,
    read_queries,
    split_queries,
)
from ebbtide.agent.events.session import Event, ReplyFinished, ToolFinished
from ebbtide.agent.events.view import ContextCompacted, PrefixDrifted
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings
from ebbtide.agent.tool_specs import HostedSearch, ToolSpec
from ebbtide.tools.catalog import create_builtin_tools
from tests.agent.window.test_deferral import searching
from tests.kit.session import Home, call, events_of, prints

TOOLS = offered_tools()
NAMES = [tool.name for tool in TOOLS]


def test_there_are_fifty_tools_of_each_of_ten_servers() -> None:
    assert list(Counter(name.split("__")[1] for name in NAMES).values()) == [50] * 10
    assert len(set(NAMES)) == 500
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in NAMES)
    assert all(set(tool.schema["required"]) <= set(tool.schema["properties"]) for tool in TOOLS)  # type: ignore[call-overload]  # a schema is JSON


def test_every_query_means_a_tool() -> None:
    queries = read_queries()
    assert (len(queries), len({query.text for query in queries})) == (300, 300)
    assert set(Counter(query.tool.split("__")[1] for query in queries).values()) == {30}
    assert {query.tool for query in queries} <= set(NAMES)


def test_a_search_finds_what_is_meant() -> None:
    queries = read_queries()
    _, unseen = split_queries(queries)
    assert measure_search(queries, TOOLS).recall >= 0.95
    assert measure_search(unseen, TOOLS).recall >= 0.90


@pytest.mark.parametrize("size", WINDOW_SIZES)
@pytest.mark.parametrize("provider", [search for search, _ in SEARCH_PROVIDERS])
def test_they_take_at_most_a_tenth_of_what_a_request_may_take(size: int, provider: HostedSearch) -> None:
    share = measure_share(size, provider, TOOLS)
    assert share.others <= 10
    assert share.others + share.built_in <= 10 or share.deferred == 500


def arguments_for(tool: CatalogTool) -> dict[str, object]:
    """Some that match the tool's schema."""
    kinds: dict[str, object] = {"string": "x", "integer": 1, "boolean": True, "array": ["x"]}
    properties: Any = tool.schema["properties"]
    required: Any = tool.schema["required"]
    return {name: properties[name].get("enum", [kinds[properties[name]["type"]]])[0] for name in required}


def steps(tools: Sequence[CatalogTool], *, hosted: bool) -> list[dict[str, Any]]:
    """Steps that search for a tool and call it, or only call it by its name, with long outputs between them."""
    made: list[dict[str, Any]] = []
    for place, tool in enumerate(tools):
        if hosted:
            made.append({"calls": [call(tool.name, **arguments_for(tool))]})
        else:
            made.append({"calls": [call("tool_search", query=tool.description)]})
            made.append({"calls": [call("call_tool", name=tool.name, arguments=arguments_for(tool))]})
        made.append(prints("abcdefghij"[place % 10]))
    return made


@pytest.mark.parametrize("provider", ["none", "plain"])
async def test_the_array_stays_the_same_until_the_view_is_rewritten(home: Home, provider: HostedSearch) -> None:
    called = TOOLS[::14]
    script = [*steps(called, hosted=provider != "none"), {"text": "done"}]
    summary = {"when": "<retain>", "text": "<retain>id 7</retain><summary>many tools were called</summary>"}
    model = searching(*script, *[summary] * 20, window=32_000, search=provider)
    caps = CompactionCaps(tail=4_000, ledger=900, protected_output_tokens=8_000)
    session = await home.open(
        model, tools=(*create_builtin_tools(), *TOOLS), compaction_settings=CompactionSettings(caps)
    )
    events = await events_of(session)
    await session.close()

    arrays = arrays_by_epoch(events, [request.tools for request in model.requests])
    assert all(len({id(array) for array in epoch}) == 1 for epoch in arrays)
    assert len(arrays) > 2
    assert sum(map(len, arrays)) == len(model.requests) > len(script)
    assert not [event for event in events if isinstance(event, PrefixDrifted)]
    done = [event.name for event in events if isinstance(event, ToolFinished) and event.status == "done"]
    assert [name for name in done if name in NAMES] == [tool.name for tool in called]


def arrays_by_epoch(events: list[Event], sent: list[tuple[ToolSpec, ...]]) -> list[list[tuple[ToolSpec, ...]]]:
    """The arrays of the requests, parted where the view was rewritten."""
    epochs: list[list[tuple[ToolSpec, ...]]] = [[]]
    arrays = iter(sent)
    for event in events:
        if isinstance(event, ReplyFinished):
            epochs[-1].append(next(arrays))
        elif isinstance(event, ContextCompacted):
            epochs.append([])
    return [epoch for epoch in epochs if epoch]
