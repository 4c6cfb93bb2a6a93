"""Adapts a tool's definition to what servers accept: its name, description and parameter schema. Pure."""

import re
from collections.abc import Iterable, Mapping

from ebbtide.agent.providers.wires.http import Json

_CHOICES = ("oneOf", "anyOf", "allOf")
_REFUSED_KEYS = (*_CHOICES, "enum", "not")
"""Keys that must not be at the top level of a schema."""
_TRUNCATION_NOTE = (
    " [… the rest of this text is too long for this provider: if a call fails, its error says what is wrong]"
)


def wire_name(name: str) -> str:
    """A tool name that every server accepts, for calls whose name the model made up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def sent_schema(schema: Mapping[str, object], keys: str = "") -> Json:
    """A tool's parameters as servers accept them: they reject a request if any tool has alternatives at the top
    level of its schema. The parameters of all alternatives are merged. `keys`: a pattern that parameter names
    must match. Calls are checked against the original schema."""
    sent = {name: value for name, value in schema.items() if name not in _REFUSED_KEYS}
    choices = [each for name in _CHOICES if isinstance(found := schema.get(name), list) for each in found]
    if any(isinstance(each, dict) for each in choices):
        sent["properties"] = {**_parameters_of(choices), **_parameters_of([schema])}
    properties = sent.get("properties")
    odd = {name for name in properties if not re.fullmatch(keys, name)} if keys and isinstance(properties, dict) else ()
    if odd and isinstance(properties, dict):
        required = sent.get("required")
        sent["properties"] = {name: value for name, value in properties.items() if name not in odd}
        sent["required"] = [name for name in required if name not in odd] if isinstance(required, list) else []
    return sent


def _parameters_of(schemas: Iterable[object]) -> Json:
    """All parameters of the schemas, each with all of its schemas."""
    found: dict[str, list[object]] = {}
    for schema in schemas:
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        for name, value in properties.items() if isinstance(properties, Mapping) else ():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: values[0] if len(values) == 1 else {"anyOf": values} for name, values in found.items()}


def shortened_description(text: str, longest: int) -> str:
    """A tool's description in at most `longest` characters: cut at the end of a sentence, with a note."""
    if len(text) <= longest:
        return text
    start = text[: longest - len(_TRUNCATION_NOTE)]
    ends = [found.end() for found in re.finditer(r"[.!?](?=\s)|\n(?=\s*\n)", start)]
    whole = start[: ends[-1]] if ends and ends[-1] > len(start) // 2 else start.rpartition(" ")[0] or start
    return f"{whole.rstrip()}{_TRUNCATION_NOTE}"
