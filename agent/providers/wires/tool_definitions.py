"""Adapts a tool's definition to what servers accept: its name, description and parameter schema."""

import re
from collections.abc import Iterable, Mapping

from ebbtide.agent.providers.wires.http import JsonObject

_ALTERNATIVE_KEYS = ("oneOf", "anyOf", "allOf")
_REJECTED_KEYS = (*_ALTERNATIVE_KEYS, "enum", "not")
"""Keys that servers reject at the top level of a schema."""
_TRUNCATION_NOTE = (
    " [… the rest of this text is too long for this provider: if a call fails, its error says what is wrong]"
)


def sendable_name(name: str) -> str:
    """Convert a name that the model invented to a tool name that every server accepts."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def make_schema_sendable(schema: Mapping[str, object], name_pattern: str = "") -> JsonObject:
    """Convert a tool's parameters to a form that servers accept. Servers reject alternatives at the top level of a
    schema, so the parameters of all alternatives are merged. `name_pattern`: parameters whose names do not match are
    removed. Calls are still checked against the original schema."""
    sendable = {name: value for name, value in schema.items() if name not in _REJECTED_KEYS}
    candidates = [
        alternative
        for name in _ALTERNATIVE_KEYS
        if isinstance(alternatives := schema.get(name), list)
        for alternative in alternatives
    ]
    if any(isinstance(alternative, dict) for alternative in candidates):
        sendable["properties"] = {**_merged_parameters(candidates), **_merged_parameters([schema])}
    properties = sendable.get("properties")
    invalid_names = (
        {name for name in properties if not re.fullmatch(name_pattern, name)}
        if name_pattern and isinstance(properties, dict)
        else ()
    )
    if invalid_names and isinstance(properties, dict):
        required = sendable.get("required")
        sendable["properties"] = {name: value for name, value in properties.items() if name not in invalid_names}
        sendable["required"] = (
            [name for name in required if name not in invalid_names] if isinstance(required, list) else []
        )
    return sendable


def _merged_parameters(schemas: Iterable[object]) -> JsonObject:
    """Merge the parameters of the schemas. A parameter with different schemas gets an `anyOf` of them."""
    schemas_by_name: dict[str, list[object]] = {}
    for schema in schemas:
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        for name, value in properties.items() if isinstance(properties, Mapping) else ():
            if value not in schemas_by_name.setdefault(name, []):
                schemas_by_name[name].append(value)
    return {name: values[0] if len(values) == 1 else {"anyOf": values} for name, values in schemas_by_name.items()}


def shorten_description(text: str, max_chars: int) -> str:
    """Return a tool's description in at most `max_chars` characters. A longer one is cut after a sentence, with a
    note."""
    if len(text) <= max_chars:
        return text
    start = text[: max_chars - len(_TRUNCATION_NOTE)]
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s)|\n(?=\s*\n)", start)]
    shortened = start[: ends[-1]] if ends and ends[-1] > len(start) // 2 else start.rpartition(" ")[0] or start
    return f"{shortened.rstrip()}{_TRUNCATION_NOTE}"
