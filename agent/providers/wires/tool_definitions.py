"""A tool as servers take its definition: its name, what is said of it, and the schema of its arguments. Pure."""

import re
from collections.abc import Iterable, Mapping

from ebbtide.agent.providers.wires.http import Json

_CHOICES = ("oneOf", "anyOf", "allOf")
_REFUSED_KEYS = (*_CHOICES, "enum", "not")
"""What no schema may be at its top level."""
_TRUNCATION_NOTE = (
    " [… the rest of this text is too long for this provider: if a call fails, its error says what is wrong]"
)


def wire_name(name: str) -> str:
    """A tool name that every server takes, for calls whose name the model made up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def sent_schema(schema: Mapping[str, object], keys: str = "") -> Json:
    """The parameters of a tool as servers take them, which refuse every request for one tool whose schema is a choice
    at its top level: it has the parameters of all that may be chosen. `keys`: a pattern that names of parameters must
    match. Calls are checked against the whole."""
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
    """What may be named as a parameter, with each schema that it has somewhere."""
    found: dict[str, list[object]] = {}
    for schema in schemas:
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        for name, value in properties.items() if isinstance(properties, Mapping) else ():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: values[0] if len(values) == 1 else {"anyOf": values} for name, values in found.items()}


def shortened_description(text: str, longest: int) -> str:
    """The text of a tool in so many characters: cut where a sentence ends, and said to be."""
    if len(text) <= longest:
        return text
    start = text[: longest - len(_TRUNCATION_NOTE)]
    ends = [found.end() for found in re.finditer(r"[.!?](?=\s)|\n(?=\s*\n)", start)]
    whole = start[: ends[-1]] if ends and ends[-1] > len(start) // 2 else start.rpartition(" ")[0] or start
    return f"{whole.rstrip()}{_TRUNCATION_NOTE}"
