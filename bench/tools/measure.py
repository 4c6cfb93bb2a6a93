"""Measures five hundred tools of ten servers: how often a search finds the right one, and how much of the window they
take while deferred. No model is used.

    python -m bench.tools.measure"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.tools.catalog import offered_tools
from ebbtide.agent.budget.request_budget import DEFAULT_BUFFER_TOKENS, Window
from ebbtide.agent.prompt.tool_selection import count_definition_tokens, select_tools
from ebbtide.agent.providers.setup import DEFAULT_OUTPUT_RESERVE_TOKENS
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.tool_specs import HostedSearch, ToolSpec
from ebbtide.agent.window.deferral import ToolDeferral, create_specs
from ebbtide.tools.base import Tool
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.tool_search import search_tools

QUERIES = Path(__file__).with_name("queries.tsv")
MAX_RESULTS = 5
WINDOW_SIZES = (200_000, 32_000)
SEARCH_PROVIDERS: tuple[tuple[HostedSearch, str], ...] = (
    ("none", "our own two tools"),
    ("plain", "Anthropic's search"),
    ("grouped", "OpenAI's search"),
)


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A search that a model might make, and the tool that it should find."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class SearchScore:
    queries: int
    ranked_first: int
    """Number of queries whose tool was ranked first."""
    ranked_in_results: int
    """Number of queries whose tool was among the first five results."""
    missed: tuple[LabelledQuery, ...]

    @property
    def recall(self) -> float:
        return self.ranked_in_results / self.queries


@dataclass(frozen=True, slots=True)
class WindowShare:
    """The share of the usable window taken by tools, in percent."""

    built_in: float
    """The built-in tools, which are never deferred."""
    others: float
    """Everything offered because of the five hundred tools: definitions, groups and search tools."""
    deferred: int
    """Number of tools that the model does not see."""


def read_queries() -> tuple[LabelledQuery, ...]:
    lines = QUERIES.read_text(encoding="utf-8").splitlines()
    return tuple(LabelledQuery(f"mcp__{tool}", text) for tool, text in (line.split("\t") for line in lines))


def split_queries(queries: Sequence[LabelledQuery]) -> tuple[tuple[LabelledQuery, ...], tuple[LabelledQuery, ...]]:
    """Split the queries into two thirds for developing the ranking and one third used only for measuring."""
    development = tuple(query for place, query in enumerate(queries) if place % 3 != 2)
    return development, tuple(queries[2::3])


def measure_search(queries: Sequence[LabelledQuery], tools: Sequence[Tool]) -> SearchScore:
    answers = [[tool.name for tool in search_tools(query.text, tools, MAX_RESULTS)] for query in queries]
    first = sum(names[:1] == [query.tool] for query, names in zip(queries, answers, strict=True))
    missed = tuple(query for query, names in zip(queries, answers, strict=True) if query.tool not in names)
    return SearchScore(len(queries), first, len(queries) - len(missed), missed)


def default_window(size: int) -> Window:
    """Return a window with the reserves of the default settings."""
    return Window(size, min(DEFAULT_OUTPUT_RESERVE_TOKENS, size // 4), min(DEFAULT_BUFFER_TOKENS, size // 8))


def measure_share(size: int, provider: HostedSearch, tools: Sequence[Tool]) -> WindowShare:
    effective, meter, deferral = default_window(size).available_tokens, TokenMeter(), ToolDeferral()
    own = create_specs(create_builtin_tools())
    specs: tuple[ToolSpec, ...] = (*own, *create_specs(tools))
    deferral.choose_tools(specs, effective, meter.estimate_definition, lambda _: None, provider)
    built_in = count_definition_tokens(select_tools(own), meter.estimate_definition)
    whole = count_definition_tokens(deferral.offered_tools(specs), meter.estimate_definition)
    return WindowShare(100 * built_in / effective, 100 * (whole - built_in) / effective, len(deferral.deferred_names))


def main() -> None:
    tools = offered_tools()
    development, evaluation = split_queries(read_queries())
    for name, queries in (
        ("worked on", development),
        ("only counted", evaluation),
        ("all", (*development, *evaluation)),
    ):
        found = measure_search(queries, tools)
        print(
            f"{name:<13} {found.queries} queries: recall@{MAX_RESULTS} {found.recall:.3f}, "
            f"first {found.ranked_first / found.queries:.3f}"
        )
    times = []
    for query in development:
        begin = time.perf_counter()
        search_tools(query.text, tools, MAX_RESULTS)
        times.append(1000 * (time.perf_counter() - begin))
    print(f"a search takes {median(times):.1f} ms (median)")
    whole = count_definition_tokens(create_specs(tools), TokenMeter().estimate_definition)
    print(f"{len(tools)} definitions take {whole:,} tokens")
    for size in WINDOW_SIZES:
        for provider, finder in SEARCH_PROVIDERS:
            share = measure_share(size, provider, tools)
            print(
                f"{size:>7,} window, {finder:<18} {share.deferred} of {len(tools)} wait: they take "
                f"{share.others:.1f} % of it, the built-in tools {share.built_in:.1f} %"
            )


if __name__ == "__main__":
    main()
