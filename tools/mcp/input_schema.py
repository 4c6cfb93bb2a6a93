"""Converts tool schemas to a form that every provider accepts: JSON Schema 2020-12 of an object, fully explicit. The
set of valid values is unchanged, so that calls are validated against it as well. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from ebbtide.tools.mcp.texts import clean

Schema: TypeAlias = Mapping[str, object]
RewrittenSchema: TypeAlias = dict[str, object]

_NAMED_SUBSCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED_SUBSCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    "items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "not", "if", "then",
    "else", "propertyNames",
)  # fmt: skip
_WORDS = ("title", "description", "$comment")
"""Annotations that do not affect validation."""
_MAY_BE_NULL = ("default", "const", "example")
_LIMITS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def portable(schema: Schema) -> Schema:
    """Return the schema in portable form. Schemas that are not objects stay so; `schema_fault` reports them."""
    sent = _resolve_ref(schema)
    sent = {key: value for key, value in _portable(sent).items() if key != "$schema"}
    kinds = sent.get("type", "object")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        sent["type"] = "object"  # arguments are always an object, whatever the schema says
        sent.setdefault("properties", {})
    return sent


def _resolve_ref(schema: Schema) -> Schema:
    """Resolve a schema that is only a reference, keeping the definitions it may refer to."""
    seen: set[str] = set()
    while isinstance(name := schema.get("$ref"), str) and name.startswith("#/") and name not in seen:
        seen.add(name)
        found: object = schema
        for step in name.removeprefix("#/").split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            break
        schema = {**{key: value for key, value in schema.items() if key != "$ref"}, **found}
    return schema


def _portable(schema: Schema) -> RewrittenSchema:
    """Convert a schema and its subschemas."""
    sent = {key: value for key, value in schema.items() if value is not None or key in _MAY_BE_NULL}
    sent |= {key: clean(said) for key in _WORDS if isinstance(said := sent.get(key), str)}
    _rename_dependencies(sent)
    _number_limits(sent)
    _require_by_name(sent)
    _describe_items(sent)
    if sent.get("type") == "any":
        del sent["type"]
    for key in _NAMED_SUBSCHEMAS:
        if isinstance(inner := sent.get(key), Mapping):
            sent[key] = {name: _inside(each) for name, each in inner.items()}
    for key in _LISTED_SUBSCHEMAS:
        if isinstance(inner := sent.get(key), list):
            sent[key] = [_inside(each) for each in inner]
    for key in _SINGLE:
        if key in sent:
            sent[key] = _inside(sent[key])
    return sent


def _inside(value: object) -> object:
    return _portable(value) if isinstance(value, Mapping) else value


def words_in(schema: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text that a model reads in a schema, in order, with the path to it, such as `order.items.size: …`. A
    description follows the name it belongs to. The schema must not be nested too deeply."""
    match schema:
        case str():
            yield where, schema
        case list() | tuple():
            texts = [each for each in schema if isinstance(each, str)]
            if texts:
                yield where, ", ".join(texts)
            for each in schema:
                if isinstance(each, Mapping | list):
                    yield from words_in(each, where)
        case Mapping():
            for key, value in schema.items():
                place = where if key == "description" and isinstance(value, str) else f"{where}.{key}".lstrip(".")
                if key in _NAMED_SUBSCHEMAS and isinstance(value, Mapping):
                    yield from _named_words(value, where if key == "properties" else place)
                elif key not in ("type", "required") and value not in ("", [], {}):
                    yield from words_in(value, place)


def _named_words(schemas: Mapping[str, object], where: str) -> Iterator[tuple[str, str]]:
    for name, inner in schemas.items():
        place = f"{where}.{name}".lstrip(".")
        if not (isinstance(inner, Mapping) and isinstance(inner.get("description"), str)):
            yield place, ""
        yield from words_in(inner, place)


def _number_limits(sent: RewrittenSchema) -> None:
    """Draft 4: convert boolean `exclusiveMinimum` and `exclusiveMaximum`."""
    for exclusive, limit in _LIMITS.items():
        if isinstance(is_exclusive := sent.get(exclusive), bool):
            del sent[exclusive]
            if is_exclusive and limit in sent:
                sent[exclusive] = sent.pop(limit)


def _require_by_name(sent: RewrittenSchema) -> None:
    """Draft 3: convert `required` within properties. Also removes duplicates."""
    own, properties = sent.get("required"), sent.get("properties")
    if isinstance(own, bool):
        del sent["required"]
    named: Iterable[object] = own if isinstance(own, list) else ()
    if not isinstance(properties, Mapping) or (own is not None and not isinstance(own, bool | list)):
        return
    marked = [name for name, each in properties.items() if isinstance(each, Mapping) and each.get("required") is True]
    if marked or isinstance(own, list):
        wanted = [*named, *marked]
        sent["required"] = [name for place, name in enumerate(wanted) if name not in wanted[:place]]


def _describe_items(sent: RewrittenSchema) -> None:
    """Draft 7: convert positional `items` to `prefixItems`. Arrays always get `items`."""
    if isinstance(places := sent.get("items"), list):
        del sent["items"]
        if places:
            sent["prefixItems"] = places
        if "additionalItems" in sent:
            sent["items"] = sent.pop("additionalItems")
    kinds = sent.get("type")
    is_list = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    if is_list and sent.get("items", True) is True:
        sent["items"] = {}


def _rename_dependencies(sent: RewrittenSchema) -> None:
    """Draft 7: split `dependencies` into `dependentRequired` and `dependentSchemas`."""
    if not isinstance(both := sent.get("dependencies"), Mapping):
        return
    del sent["dependencies"]
    listed = {key: [each] if isinstance(each, str) else each for key, each in both.items()}
    required = {key: each for key, each in listed.items() if isinstance(each, list)}
    schemas = {key: each for key, each in listed.items() if key not in required}
    for key, found in (("dependentRequired", required), ("dependentSchemas", schemas)):
        if found:
            sent[key] = {**found, **(known if isinstance(known := sent.get(key), Mapping) else {})}
