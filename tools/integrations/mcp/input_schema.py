"""Converts tool schemas to a form that every provider accepts: the JSON Schema (2020-12) of an object, without
shorthands of older drafts. The set of valid values does not change, so calls can be validated against the converted
schema. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from ebbtide.tools.integrations.mcp.texts import clean

Schema: TypeAlias = Mapping[str, object]
RewrittenSchema: TypeAlias = dict[str, object]

_NAMED_SUBSCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED_SUBSCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE_SUBSCHEMAS = (
    "items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "not", "if", "then",
    "else", "propertyNames",
)  # fmt: skip
_ANNOTATIONS = ("title", "description", "$comment")
"""Annotations that do not affect validation."""
_NULLABLE_KEYS = ("default", "const", "example")
_EXCLUSIVE_LIMITS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def portable_schema(schema: Schema) -> Schema:
    """Return the schema in portable form. A schema that does not describe an object keeps its type, so that
    `schema_fault` can report it."""
    converted = _resolve_ref(schema)
    converted = {key: value for key, value in _portable_subschema(converted).items() if key != "$schema"}
    kinds = converted.get("type", "object")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        converted["type"] = "object"  # arguments are always an object
        converted.setdefault("properties", {})
    return converted


def _resolve_ref(schema: Schema) -> Schema:
    """Resolve a schema that is just a reference, keeping the definitions that it may refer to."""
    seen: set[str] = set()
    while isinstance(name := schema.get("$ref"), str) and name.startswith("#/") and name not in seen:
        seen.add(name)
        target: object = schema
        for step in name.removeprefix("#/").split("/"):
            target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping):
            break
        schema = {**{key: value for key, value in schema.items() if key != "$ref"}, **target}
    return schema


def _portable_subschema(schema: Schema) -> RewrittenSchema:
    """Convert a schema, including its subschemas."""
    converted = {key: value for key, value in schema.items() if value is not None or key in _NULLABLE_KEYS}
    converted |= {key: clean(text) for key in _ANNOTATIONS if isinstance(text := converted.get(key), str)}
    _convert_dependencies(converted)
    _convert_exclusive_limits(converted)
    _convert_required(converted)
    _convert_items(converted)
    if converted.get("type") == "any":
        del converted["type"]
    for key in _NAMED_SUBSCHEMAS:
        if isinstance(inner := converted.get(key), Mapping):
            converted[key] = {name: _portable_value(each) for name, each in inner.items()}
    for key in _LISTED_SUBSCHEMAS:
        if isinstance(inner := converted.get(key), list):
            converted[key] = [_portable_value(each) for each in inner]
    for key in _SINGLE_SUBSCHEMAS:
        if key in converted:
            converted[key] = _portable_value(converted[key])
    return converted


def _portable_value(value: object) -> object:
    return _portable_subschema(value) if isinstance(value, Mapping) else value


def schema_texts(schema: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield all text in a schema that a model reads, in order, each with its path, such as `order.items.size`. A
    description follows the name that it describes. The schema must not be nested too deeply."""
    match schema:
        case str():
            yield where, schema
        case list() | tuple():
            texts = [each for each in schema if isinstance(each, str)]
            if texts:
                yield where, ", ".join(texts)
            for each in schema:
                if isinstance(each, Mapping | list):
                    yield from schema_texts(each, where)
        case Mapping():
            for key, value in schema.items():
                path = where if key == "description" and isinstance(value, str) else f"{where}.{key}".lstrip(".")
                if key in _NAMED_SUBSCHEMAS and isinstance(value, Mapping):
                    yield from _named_schema_texts(value, where if key == "properties" else path)
                elif key not in ("type", "required") and value not in ("", [], {}):
                    yield from schema_texts(value, path)


def _named_schema_texts(schemas: Mapping[str, object], where: str) -> Iterator[tuple[str, str]]:
    for name, inner in schemas.items():
        place = f"{where}.{name}".lstrip(".")
        if not (isinstance(inner, Mapping) and isinstance(inner.get("description"), str)):
            yield place, ""
        yield from schema_texts(inner, place)


def _convert_exclusive_limits(schema: RewrittenSchema) -> None:
    """Convert the boolean `exclusiveMinimum` and `exclusiveMaximum` of draft 4."""
    for exclusive, limit in _EXCLUSIVE_LIMITS.items():
        if isinstance(is_exclusive := schema.get(exclusive), bool):
            del schema[exclusive]
            if is_exclusive and limit in schema:
                schema[exclusive] = schema.pop(limit)


def _convert_required(schema: RewrittenSchema) -> None:
    """Convert the `required` of draft 3, which is part of a property. Also removes duplicates."""
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, bool):
        del schema["required"]
    named: Iterable[object] = required if isinstance(required, list) else ()
    if not isinstance(properties, Mapping) or (required is not None and not isinstance(required, bool | list)):
        return
    marked = [name for name, each in properties.items() if isinstance(each, Mapping) and each.get("required") is True]
    if marked or isinstance(required, list):
        wanted = [*named, *marked]
        schema["required"] = [name for place, name in enumerate(wanted) if name not in wanted[:place]]


def _convert_items(schema: RewrittenSchema) -> None:
    """Convert the positional `items` of draft 7 to `prefixItems`. Arrays always get `items`."""
    if isinstance(places := schema.get("items"), list):
        del schema["items"]
        if places:
            schema["prefixItems"] = places
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")
    kinds = schema.get("type")
    is_list = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    if is_list and schema.get("items", True) is True:
        schema["items"] = {}


def _convert_dependencies(schema: RewrittenSchema) -> None:
    """Split the `dependencies` of draft 7 into `dependentRequired` and `dependentSchemas`."""
    if not isinstance(both := schema.get("dependencies"), Mapping):
        return
    del schema["dependencies"]
    listed = {key: [each] if isinstance(each, str) else each for key, each in both.items()}
    required = {key: each for key, each in listed.items() if isinstance(each, list)}
    schemas = {key: each for key, each in listed.items() if key not in required}
    for key, found in (("dependentRequired", required), ("dependentSchemas", schemas)):
        if found:
            schema[key] = {**found, **(known if isinstance(known := schema.get(key), Mapping) else {})}
