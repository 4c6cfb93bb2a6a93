"""Measures five hundred tools of ten servers: how often a search finds the right one, and how much of the window they
take while deferred. No model is used.

    python -m bench.tools.measure"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.tools.catalog import offered_tools
from ebbtide.agent.context.budget import BUFFER, Window
from ebbtide.agent.context.tool_selection import HostedSearch, ToolSpec, definitions_size, select_tools
from ebbtide.agent.providers.meter import Meter
from ebbtide.agent.providers.setup import OUTPUT_TOKENS
from ebbtide.agent.window.deferral import Deferral, specs_of
from ebbtide.tools.base import Tool
from ebbtide.tools.catalog import builtin_tools
from ebbtide.tools.tool_search import search

QUERIES = Path(__file__).with_name("queries.tsv")
MAX_RESULTS = 5
WINDOWS = (200_000, 32_000)
FINDERS: tuple[tuple[HostedSearch, str], ...] = (
    ("none", "our own two tools"),
    ("plain", "Anthropic's search"),
    ("grouped", "OpenAI's search"),
)


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A request that a model might make, and the tool it means."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class SearchScore:
    queries: int
    first: int
    """Queries whose tool was ranked first."""
    among: int
    """Queries whose tool was among the first five."""
    missed: tuple[LabelledQuery, ...]

    @property
    def recall(self) -> float:
        return self.among / self.queries


@dataclass(frozen=True, slots=True)
class WindowShare:
    """Share of the usable window taken by tools, in percent."""

    built_in: float
    """The built-in tools, which are never deferred."""
    others: float
    """Everything shown because of the five hundred: definitions, groups and search tools."""
    deferred: int
    """Number of tools that the model does not see."""


def read_queries() -> tuple[LabelledQuery, ...]:
    lines = QUERIES.read_text(encoding="utf-8").splitlines()
    return tuple(LabelledQuery(f"mcp__{tool}", text) for tool, text in (line.split("\t") for line in lines))


def halves(queries: Sequence[LabelledQuery]) -> tuple[tuple[LabelledQuery, ...], tuple[LabelledQuery, ...]]:
    """Split into two thirds, used to develop the ranking, and a third, used only to measure."""
    seen = tuple(query for place, query in enumerate(queries) if place % 3 != 2)
    return seen, tuple(queries[2::3])


def measure_search(queries: Sequence[LabelledQuery], tools: Sequence[Tool]) -> SearchScore:
    answers = [[tool.name for tool in search(query.text, tools, MAX_RESULTS)] for query in queries]
    first = sum(names[:1] == [query.tool] for query, names in zip(queries, answers, strict=True))
    missed = tuple(query for query, names in zip(queries, answers, strict=True) if query.tool not in names)
    return SearchScore(len(queries), first, len(queries) - len(missed), missed)


def window_of(size: int) -> Window:
    """A window with the reserves of the default settings."""
    return Window(size, min(OUTPUT_TOKENS, size // 4), min(BUFFER, size // 8))


def measure_share(size: int, provider: HostedSearch, tools: Sequence[Tool]) -> WindowShare:
    effective, meter, deferral = window_of(size).effective, Meter(), Deferral()
    own = specs_of(builtin_tools())
    specs: tuple[ToolSpec, ...] = (*own, *specs_of(tools))
    deferral.choose(specs, effective, meter.size_of_tool, lambda _: None, provider)
    built_in = definitions_size(select_tools(own), meter.size_of_tool)
    whole = definitions_size(deferral.offered_tools(specs), meter.size_of_tool)
    return WindowShare(100 * built_in / effective, 100 * (whole - built_in) / effective, len(deferral.held_back))


def main() -> None:
    tools = offered_tools()
    seen, unseen = halves(read_queries())
    for name, queries in (("worked on", seen), ("only counted", unseen), ("all", (*seen, *unseen))):
        found = measure_search(queries, tools)
        print(
            f"{name:<13} {found.queries} queries: recall@{MAX_RESULTS} {found.recall:.3f}, "
            f"first {found.first / found.queries:.3f}"
        )
    times = []
    for query in seen:
        begin = time.perf_counter()
        search(query.text, tools, MAX_RESULTS)
        times.append(1000 * (time.perf_counter() - begin))
    print(f"a search takes {median(times):.1f} ms (median)")
    whole = definitions_size(specs_of(tools), Meter().size_of_tool)
    print(f"{len(tools)} definitions take {whole:,} tokens")
    for size in WINDOWS:
        for provider, told in FINDERS:
            share = measure_share(size, provider, tools)
            print(
                f"{size:>7,} window, {told:<18} {share.deferred} of {len(tools)} wait: they take {share.others:.1f} % "
                f"of it, the built-in tools {share.built_in:.1f} %"
            )


if __name__ == "__main__":
    main()
