"""Converts tool schemas to a form that every provider accepts: the JSON Schema (2020-12) of an object, without
shorthands of older drafts. The set of valid values does not change, so calls can be validated against the converted
schema. No I/O."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from ebbtide.tools.integrations.mcp.texts import clean_text

Schema: TypeAlias = Mapping[str, object]
MutableSchema: TypeAlias = dict[str, object]

_NAMED_SUBSCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED_SUBSCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE_SUBSCHEMAS = (
    "items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "not", "if", "then",
    "else", "propertyNames",
)  # fmt: skip
_ANNOTATIONS = ("title", "description", "$comment")
"""Annotations that do not affect validation."""
_KEYS_THAT_MAY_BE_NULL = ("default", "const", "example")
_EXCLUSIVE_LIMITS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def portable_schema(schema: Schema) -> Schema:
    """Convert the schema to portable form. A schema that does not describe an object keeps its type, so that
    `input_schema_problem` can report it."""
    converted = _resolve_ref(schema)
    converted = {key: value for key, value in _portable_subschema(converted).items() if key != "$schema"}
    types = converted.get("type", "object")
    if types == "object" or (isinstance(types, list) and "object" in types):
        converted["type"] = "object"  # arguments are always an object
        converted.setdefault("properties", {})
    return converted


def _resolve_ref(schema: Schema) -> Schema:
    """Resolve a schema that is only a reference. The definitions it may refer to are kept."""
    seen_refs: set[str] = set()
    while isinstance(ref := schema.get("$ref"), str) and ref.startswith("#/") and ref not in seen_refs:
        seen_refs.add(ref)
        target: object = schema
        for token in ref.removeprefix("#/").split("/"):
            target = target.get(token.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping):
            break
        schema = {**{key: value for key, value in schema.items() if key != "$ref"}, **target}
    return schema


def _portable_subschema(schema: Schema) -> MutableSchema:
    """Convert a schema, including its subschemas."""
    converted = {key: value for key, value in schema.items() if value is not None or key in _KEYS_THAT_MAY_BE_NULL}
    converted |= {key: clean_text(text) for key in _ANNOTATIONS if isinstance(text := converted.get(key), str)}
    _convert_dependencies(converted)
    _convert_exclusive_limits(converted)
    _convert_required(converted)
    _convert_items(converted)
    if converted.get("type") == "any":
        del converted["type"]
    for key in _NAMED_SUBSCHEMAS:
        if isinstance(subschemas_by_name := converted.get(key), Mapping):
            converted[key] = {name: _portable_value(subschema) for name, subschema in subschemas_by_name.items()}
    for key in _LISTED_SUBSCHEMAS:
        if isinstance(subschemas := converted.get(key), list):
            converted[key] = [_portable_value(subschema) for subschema in subschemas]
    for key in _SINGLE_SUBSCHEMAS:
        if key in converted:
            converted[key] = _portable_value(converted[key])
    return converted


def _portable_value(value: object) -> object:
    return _portable_subschema(value) if isinstance(value, Mapping) else value


def iter_schema_texts(schema: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield all text in a schema that a model reads, in order, each with its path, such as `order.items.size`. A
    description follows the name that it describes. The schema must not be nested too deeply."""
    match schema:
        case str():
            yield path, schema
        case list() | tuple():
            texts = [item for item in schema if isinstance(item, str)]
            if texts:
                yield path, ", ".join(texts)
            for item in schema:
                if isinstance(item, Mapping | list):
                    yield from iter_schema_texts(item, path)
        case Mapping():
            for key, value in schema.items():
                item_path = path if key == "description" and isinstance(value, str) else f"{path}.{key}".lstrip(".")
                if key in _NAMED_SUBSCHEMAS and isinstance(value, Mapping):
                    yield from _named_schema_texts(value, path if key == "properties" else item_path)
                elif key not in ("type", "required") and value not in ("", [], {}):
                    yield from iter_schema_texts(value, item_path)


def _named_schema_texts(schemas: Mapping[str, object], path: str) -> Iterator[tuple[str, str]]:
    for name, subschema in schemas.items():
        item_path = f"{path}.{name}".lstrip(".")
        if not (isinstance(subschema, Mapping) and isinstance(subschema.get("description"), str)):
            yield item_path, ""
        yield from iter_schema_texts(subschema, item_path)


def _convert_exclusive_limits(schema: MutableSchema) -> None:
    """Convert the boolean `exclusiveMinimum` and `exclusiveMaximum` of draft 4."""
    for exclusive_key, limit_key in _EXCLUSIVE_LIMITS.items():
        if isinstance(is_exclusive := schema.get(exclusive_key), bool):
            del schema[exclusive_key]
            if is_exclusive and limit_key in schema:
                schema[exclusive_key] = schema.pop(limit_key)


def _convert_required(schema: MutableSchema) -> None:
    """Convert the `required` of draft 3, which is part of a property. Also removes duplicates."""
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, bool):
        del schema["required"]
    listed_names: Iterable[object] = required if isinstance(required, list) else ()
    if not isinstance(properties, Mapping) or (required is not None and not isinstance(required, bool | list)):
        return
    names_marked_required = [
        name
        for name, subschema in properties.items()
        if isinstance(subschema, Mapping) and subschema.get("required") is True
    ]
    if names_marked_required or isinstance(required, list):
        required_names = [*listed_names, *names_marked_required]
        schema["required"] = [name for index, name in enumerate(required_names) if name not in required_names[:index]]


def _convert_items(schema: MutableSchema) -> None:
    """Convert the positional `items` of draft 7 to `prefixItems`. Ensure that arrays have `items`."""
    if isinstance(positional_items := schema.get("items"), list):
        del schema["items"]
        if positional_items:
            schema["prefixItems"] = positional_items
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")
    types = schema.get("type")
    is_array = types == "array" or (isinstance(types, list) and "array" in types)
    if is_array and schema.get("items", True) is True:
        schema["items"] = {}


def _convert_dependencies(schema: MutableSchema) -> None:
    """Split the `dependencies` of draft 7 into `dependentRequired` and `dependentSchemas`."""
    if not isinstance(dependencies := schema.get("dependencies"), Mapping):
        return
    del schema["dependencies"]
    normalised = {name: [value] if isinstance(value, str) else value for name, value in dependencies.items()}
    required = {name: value for name, value in normalised.items() if isinstance(value, list)}
    schemas = {name: value for name, value in normalised.items() if name not in required}
    for key, new_entries in (("dependentRequired", required), ("dependentSchemas", schemas)):
        if new_entries:
            existing_entries = schema.get(key)
            schema[key] = {**new_entries, **(existing_entries if isinstance(existing_entries, Mapping) else {})}
