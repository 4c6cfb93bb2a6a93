"""The `tool_search` tool: finds deferred tools and shows their definitions."""

import json
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.tools.base import Arguments, Effect, Result, Tool, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.search.relevance_ranking import find_best_matches, word_stems
from ebbtide.tools.tool_traits import ToolTraits

MAX_RESULTS = 5
"""Maximum number of tools in a result."""
MAX_DESCRIPTION_CHARS, MAX_SCHEMA_CHARS, MAX_ANSWER_CHARS = 2000, 5000, 16_000
"""Maximum length in characters of a description, a schema and the whole result."""
MAX_LISTED_NAMES = 40
"""Maximum number of tool names listed when nothing was found."""
_MAX_SCHEMA_DEPTH = 4
"""Maximum depth to which a schema is searched for parameter names."""


class ToolSearch:
    name = "tool_search"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="find_deferred_tools",
        output_limit="whole",
        claude_names=("ToolSearch",),
        small_window_policy="always",
    )
    schema = object_schema({"query": {"type": "string"}}, required=("query",))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        query, deferred = get_text(arguments, "query"), workspace.get_deferred_tools()
        if not deferred:
            return Result("no tools are deferred: all of them are in your list")
        matching_tools = search_tools(query, deferred)
        return Result(_definitions_text(matching_tools) if matching_tools else _no_match_text(query, deferred))


def search_tools(query: str, tools: Sequence[Tool], max_results: int = MAX_RESULTS) -> tuple[Tool, ...]:
    """Find tools that match a query, best first. An exact name match comes first. Other tools are ranked by their
    names, descriptions, parameters and enum values."""
    exact_matches = [tool for tool in tools if tool.name == query.strip()]
    ranked_indices = find_best_matches(query, [_weighted_words(tool) for tool in tools], max_results)
    ranked_tools = [tools[index] for index in ranked_indices if tools[index] not in exact_matches]
    return tuple([*exact_matches, *ranked_tools][:max_results])


def _weighted_words(tool: Tool) -> Mapping[str, float]:
    """Collect a tool's searchable words with their weights: highest in the name, lower in the description, lowest in
    parameters."""
    weights: dict[str, float] = {}
    parameters = " ".join(_parameter_words(tool.schema))
    for source_text, weight in ((tool.name, 3.0), (tool.description[:MAX_DESCRIPTION_CHARS], 1.0), (parameters, 0.5)):
        for word in word_stems(source_text):
            weights[word] = weights.get(word, 0.0) + weight
    return weights


def _parameter_words(schema: object, depth: int = 0) -> Iterator[str]:
    """Yield the names and enum values of a schema's parameters, including nested ones."""
    if not isinstance(schema, Mapping) or depth > _MAX_SCHEMA_DEPTH:
        return
    values = schema.get("enum")
    yield from map(str, values if isinstance(values, list | tuple) else ())
    properties = schema.get("properties")
    for name, subschema in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name)
        yield from _parameter_words(subschema, depth + 1)
    yield from _parameter_words(schema.get("items"), depth + 1)


def _definitions_text(tools: Sequence[Tool]) -> str:
    definitions, char_count, omitted_count = list[str](), 0, 0
    for tool in tools:
        definition = definition_text(tool)
        if definitions and char_count + len(definition) > MAX_ANSWER_CHARS:
            omitted_count += 1
            continue
        definitions.append(definition)
        char_count += len(definition)
    if omitted_count:
        definitions.append(f"[{omitted_count} more matched: search for something narrower to see them]")
    return "\n\n".join(definitions)


def definition_text(tool: Tool) -> str:
    """Format a tool's name, description and schema as text."""
    return f"## {tool.name}\n{ellipsize(tool.description.strip(), MAX_DESCRIPTION_CHARS)}\n{schema_text(tool)}"


def schema_text(tool: Tool) -> str:
    """Format a tool's schema as text. If it is very long, only the parameter names are included."""
    schema = json.dumps(tool.schema, ensure_ascii=False, default=str)
    if len(schema) <= MAX_SCHEMA_CHARS:
        return schema
    properties = tool.schema.get("properties")
    names = ", ".join(map(str, properties)) if isinstance(properties, Mapping) else ""
    return ellipsize(f"parameters: {names} (the schema is too long to be shown)", MAX_SCHEMA_CHARS)


def _no_match_text(query: str, tools: Sequence[Tool]) -> str:
    names = sorted(tool.name for tool in tools)
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return (
        f"{_no_match_phrase(len(names))} `{ellipsize(query, 200)}`; try other words, or a part "
        f"of a name. They are: {ellipsize(', '.join(names[:MAX_LISTED_NAMES]), MAX_SCHEMA_CHARS)}{more}"
    )


def _no_match_phrase(count: int) -> str:
    return "the one deferred tool does not match" if count == 1 else f"none of the {count} deferred tools matches"
