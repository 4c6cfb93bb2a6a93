"""Converts arguments to the types in their schema, where a model has confused types. Pure."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ebbtide.agent.providers.loose_json import read_whole
from ebbtide.tools.base import Arguments
from ebbtide.tools.lazy import regex
from ebbtide.tools.schema import MAX_DEPTH, has_float, is_nested, mismatches

Schema: TypeAlias = Mapping[str, object]

_WHOLE = regex(r"[+-]?\d{1,18}(\.0*)?")
_NUMBER = regex(r"[+-]?\d{1,18}(\.\d{1,18})?([eE][+-]?\d{1,2})?")
_FLAGS = {"true": True, "false": False}
AMOUNTS: Mapping[str, tuple[str, ...]] = {
    "bash": ("timeout",),
    "bash_output": ("wait",),
    "grep": ("context", "limit"),
    "read": ("offset", "limit"),
    "read_result": ("offset", "limit"),
    "recall": ("max_tokens",),
    "repo_map": ("tokens",),
    "tool_output_cache": ("offset", "limit"),
}
"""Arguments that limit how much is shown or how long a call waits. Any other number may be an identifier, which must
not be changed."""


def coerce_arguments(arguments: Arguments, schema: Schema) -> Arguments:
    """The arguments with mistakes corrected that the schema reveals: a number, flag, list or object written as a
    string, `2.0` for 2, null for an omitted argument, wrong case in a choice. Everything that matches the schema,
    or cannot be corrected, is unchanged; the schema check reports the rest."""
    if not mismatches(arguments, schema) and not has_float(arguments):
        return arguments
    found = _coerce_value(dict(arguments), schema, schema)
    return found if isinstance(found, Mapping) else arguments


def in_bounds(tool: str, arguments: Arguments, schema: Schema) -> tuple[Arguments, str]:
    """The arguments with amounts clamped to their schema's bounds, and a note about it."""
    properties = schema.get("properties")
    made, said = dict(arguments), list[str]()
    for name in AMOUNTS.get(tool, ()):
        inner = properties.get(name) if isinstance(properties, Mapping) else None
        if not isinstance(inner, Mapping):
            continue
        value, least, most = arguments.get(name), inner.get("minimum"), inner.get("maximum")
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if isinstance(most, int) and value > most:
            made[name] = most
            said.append(f"`{name}` is {most} at most and was taken as that")
        elif isinstance(least, int) and value < least:
            made[name] = least
            said.append(f"`{name}` is {least} at least and was taken as that")
    return made, f"[{'; '.join(said)}.]" if said else ""


def _coerce_value(value: object, schema: Schema, root: Schema) -> object:
    schema = _resolve_ref(schema, root)
    if choices := list(_choices(schema)):
        return _as_one_of(value, choices, root)
    kinds = _kinds(schema)
    if "integer" in kinds and isinstance(value, float):
        kinds = ("integer", *kinds)
    if kinds and not any(_is_a(value, kind) for kind in kinds):
        value = next((found for kind in kinds if (found := _as_kind(value, kind)) is not None), value)
    if isinstance(value, dict):
        return _with_properties(value, schema, root)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, Mapping):
        return [_coerce_value(item, items, root) for item in value]
    return _matching_choice(value, schema.get("enum"))


def _with_properties(value: Mapping[str, object], schema: Schema, root: Schema) -> dict[str, object]:
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    needed = required if isinstance(required, list | tuple) else ()
    made = dict[str, object]()
    for name, inner in value.items():
        wanted = known.get(name)
        if not isinstance(wanted, Mapping):
            made[name] = inner
        elif inner is not None or name in needed or not _mismatches_in(None, wanted, root):
            made[name] = _coerce_value(inner, wanted, root)
    return made


def _as_one_of(value: object, choices: Sequence[Schema], root: Schema) -> object:
    """The value converted to the first choice that accepts it; unchanged if one already does, or none can."""
    if any(not _mismatches_in(value, choice, root) for choice in choices):
        return value
    tried = (_coerce_value(value, choice, root) for choice in choices)
    return next(
        (made for made, choice in zip(tried, choices, strict=True) if not _mismatches_in(made, choice, root)), value
    )


def _mismatches_in(value: object, schema: Schema, root: Schema) -> bool:
    """Whether the value violates a part of the schema `root`, using its definitions."""
    definitions = {name: root[name] for name in ("$defs", "definitions") if name in root}
    return bool(mismatches(value, {**schema, **definitions}))


def _choices(schema: Schema) -> Iterator[Schema]:
    for name in ("anyOf", "oneOf"):
        found = schema.get(name)
        yield from (each for each in found if isinstance(each, Mapping)) if isinstance(found, list) else ()


def _resolve_ref(schema: Schema, root: Schema) -> Schema:
    """The schema, or the definition in `root` that it refers to."""
    for _ in range(MAX_DEPTH):
        name = schema.get("$ref")
        if not isinstance(name, str) or not name.startswith("#/"):
            return schema
        found: object = root
        for step in name[2:].split("/"):
            found = found.get(step) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            return schema
        schema = found
    return {}


def _kinds(schema: Schema) -> tuple[object, ...]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else tuple(kinds) if isinstance(kinds, list | tuple) else ()


def _is_a(value: object, kind: object) -> bool:
    match kind:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return value is None


def _as_kind(value: object, kind: object) -> object:
    """The value converted to a type; None if it cannot be."""
    match kind, value:
        case "integer", str() if _WHOLE.fullmatch(value.strip()):
            return int(value.strip().partition(".")[0])
        case "integer", float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case "number", str() if _NUMBER.fullmatch(value.strip()):
            return float(value) if math.isfinite(float(value)) else None
        case "boolean", str():
            return _FLAGS.get(value.strip().casefold())
        case "boolean", int() if value in (0, 1):
            return bool(value)
        case "string", int() | float() if not isinstance(value, bool):
            return json.dumps(value)
        case "string", [str() as only]:
            return only
        case "array" | "object", str():
            read = _parse_container(value, "[" if kind == "array" else "{")
            return read if _is_a(read, kind) else None
        case _:
            return None


def _parse_container(text: str, begin: str) -> object:
    if not text.lstrip().startswith(begin):
        return None
    try:
        read = read_whole(text)
    except (ValueError, RecursionError):
        return None
    return None if is_nested(read, MAX_DEPTH) else read


def _matching_choice(value: object, choices: object) -> object:
    if not isinstance(value, str) or not isinstance(choices, list | tuple) or value in choices:
        return value
    alike = [each for each in choices if isinstance(each, str) and each.casefold() == value.strip().casefold()]
    return alike[0] if len(alike) == 1 else value
