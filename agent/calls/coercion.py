"""Converts arguments to the types in their schema when a model has confused types."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ebbtide.agent.providers.loose_json import parse_document
from ebbtide.tools.base import Arguments
from ebbtide.tools.call_arguments.schema import MAX_NESTING_DEPTH, has_float, is_nested_deeper, schema_violations
from ebbtide.tools.lazy import regex
from ebbtide.tools.tool_traits import traits_of

Schema: TypeAlias = Mapping[str, object]

_INTEGER_TEXT = regex(r"[+-]?\d{1,18}(\.0*)?")
_NUMBER_TEXT = regex(r"[+-]?\d{1,18}(\.\d{1,18})?([eE][+-]?\d{1,2})?")
_BOOLEAN_TEXTS = {"true": True, "false": False}


def coerce_arguments(arguments: Arguments, schema: Schema) -> Arguments:
    """Correct type mistakes in the arguments according to the schema: a number, flag, list or object written as a
    string, `2.0` for 2, null for an omitted argument, or a choice in the wrong case. Everything else is unchanged; the
    schema check reports what could not be corrected."""
    if not schema_violations(arguments, schema) and not has_float(arguments):
        return arguments
    coerced = _coerce_value(dict(arguments), schema, schema)
    return coerced if isinstance(coerced, Mapping) else arguments


def clamp_to_bounds(tool: str, arguments: Arguments, schema: Schema) -> tuple[Arguments, str]:
    """Clamp numbers to their schema's bounds. Return the arguments and a note about what was clamped."""
    properties = schema.get("properties")
    clamped, notes = dict(arguments), list[str]()
    for name in traits_of(tool).clamped_arguments:
        property_schema = properties.get(name) if isinstance(properties, Mapping) else None
        if not isinstance(property_schema, Mapping):
            continue
        value, minimum, maximum = arguments.get(name), property_schema.get("minimum"), property_schema.get("maximum")
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if isinstance(maximum, int) and value > maximum:
            clamped[name] = maximum
            notes.append(f"`{name}` was lowered to its maximum, {maximum}")
        elif isinstance(minimum, int) and value < minimum:
            clamped[name] = minimum
            notes.append(f"`{name}` was raised to its minimum, {minimum}")
    return clamped, f"[{'; '.join(notes)}.]" if notes else ""


def _coerce_value(value: object, schema: Schema, root: Schema) -> object:
    schema = _resolve_ref(schema, root)
    if alternatives := list(_alternative_schemas(schema)):
        return _coerce_to_alternative(value, alternatives, root)
    type_names = _type_names(schema)
    if "integer" in type_names and isinstance(value, float):
        type_names = ("integer", *type_names)
    if type_names and not any(_has_type(value, type_name) for type_name in type_names):
        value = next(
            (converted for type_name in type_names if (converted := _convert_to_type(value, type_name)) is not None),
            value,
        )
    if isinstance(value, dict):
        return _coerce_properties(value, schema, root)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, Mapping):
        return [_coerce_value(item, items, root) for item in value]
    return _matching_choice(value, schema.get("enum"))


def _coerce_properties(value: Mapping[str, object], schema: Schema, root: Schema) -> dict[str, object]:
    properties, required = schema.get("properties"), schema.get("required")
    property_schemas = properties if isinstance(properties, Mapping) else {}
    required_names = required if isinstance(required, list | tuple) else ()
    coerced = dict[str, object]()
    for name, property_value in value.items():
        property_schema = property_schemas.get(name)
        if not isinstance(property_schema, Mapping):
            coerced[name] = property_value
        elif property_value is not None or name in required_names or not _is_mismatch(None, property_schema, root):
            coerced[name] = _coerce_value(property_value, property_schema, root)
    return coerced


def _coerce_to_alternative(value: object, alternatives: Sequence[Schema], root: Schema) -> object:
    """Convert a value to the first schema that accepts it as it is, or else to the first that accepts it after
    conversion. If none does, return it unchanged."""
    accepting_choices = [choice for choice in alternatives if not _is_mismatch(value, choice, root)]
    if accepting_choices:
        return _coerce_value(value, accepting_choices[0], root)  # only converts `2.0` to 2
    coerced_values = (_coerce_value(value, choice, root) for choice in alternatives)
    return next(
        (
            coerced
            for coerced, choice in zip(coerced_values, alternatives, strict=True)
            if not _is_mismatch(coerced, choice, root)
        ),
        value,
    )


def _is_mismatch(value: object, schema: Schema, root: Schema) -> bool:
    """Whether the value violates `schema`, which is a part of `root` and can refer to definitions there."""
    definitions = {name: root[name] for name in ("$defs", "definitions") if name in root}
    return bool(schema_violations(value, {**schema, **definitions}))


def _alternative_schemas(schema: Schema) -> Iterator[Schema]:
    for name in ("anyOf", "oneOf"):
        alternatives = schema.get(name)
        yield from (
            (alternative for alternative in alternatives if isinstance(alternative, Mapping))
            if isinstance(alternatives, list)
            else ()
        )


def _resolve_ref(schema: Schema, root: Schema) -> Schema:
    """Return the schema, or the definition in `root` that it refers to."""
    for _ in range(MAX_NESTING_DEPTH):
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#/"):
            return schema
        target: object = root
        for key in ref[2:].split("/"):
            target = target.get(key) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping):
            return schema
        schema = target
    return {}


def _type_names(schema: Schema) -> tuple[object, ...]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types) if isinstance(types, list | tuple) else ()


def _has_type(value: object, type_name: object) -> bool:
    match type_name:
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


def _convert_to_type(value: object, type_name: object) -> object:
    """Convert a value to a type; None if that is not possible."""
    match type_name, value:
        case "integer", str() if _INTEGER_TEXT.fullmatch(value.strip()):
            return int(value.strip().partition(".")[0])
        case "integer", float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case "number", str() if _NUMBER_TEXT.fullmatch(value.strip()):
            return float(value) if math.isfinite(float(value)) else None
        case "boolean", str():
            return _BOOLEAN_TEXTS.get(value.strip().casefold())
        case "boolean", int() if value in (0, 1):
            return bool(value)
        case "string", int() | float() if not isinstance(value, bool):
            return json.dumps(value)
        case "string", [str() as text]:
            return text
        case "array" | "object", str():
            parsed = _parse_container(value, "[" if type_name == "array" else "{")
            return parsed if _has_type(parsed, type_name) else None
        case _:
            return None


def _parse_container(text: str, opening_bracket: str) -> object:
    if not text.lstrip().startswith(opening_bracket):
        return None
    try:
        parsed = parse_document(text)
    except (ValueError, RecursionError):
        return None
    return None if is_nested_deeper(parsed, MAX_NESTING_DEPTH) else parsed


def _matching_choice(value: object, choices: object) -> object:
    if not isinstance(value, str) or not isinstance(choices, list | tuple) or value in choices:
        return value
    matches = [
        choice for choice in choices if isinstance(choice, str) and choice.casefold() == value.strip().casefold()
    ]
    return matches[0] if len(matches) == 1 else value
