"""A tool's schema in the one form that every provider takes: JSON Schema 2020-12, of an object, with nothing
left unsaid. What it allows stays the same, so that calls are checked against it, too. Pure."""

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
"""What is only read: no value is checked against it."""
_MAY_BE_NULL = ("default", "const", "example")
_LIMITS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def portable(schema: Schema) -> Schema:
    """The schema as providers take it. One that is no schema of an object stays none: to find that out is not done
    here."""
    sent = _resolve_ref(schema)
    sent = {key: value for key, value in _portable(sent).items() if key != "$schema"}
    kinds = sent.get("type", "object")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        sent["type"] = "object"  # arguments are nothing else, whatever a schema says or leaves out
        sent.setdefault("properties", {})
    return sent


def _resolve_ref(schema: Schema) -> Schema:
    """The schema that another one is nothing but a name of, with all that it may refer to itself."""
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
    """One schema and those inside it."""
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
    """Whatever a model can read in a schema, in order: each name and each text, with the names on the way to it, such
    as `order.items.size: …`. The description of something stands behind its name alone. Of a schema that is nested no
    deeper than it may be."""
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
    """Draft 4: a limit, and whether it is one of those that must not be reached."""
    for exclusive, limit in _LIMITS.items():
        if isinstance(is_exclusive := sent.get(exclusive), bool):
            del sent[exclusive]
            if is_exclusive and limit in sent:
                sent[exclusive] = sent.pop(limit)


def _require_by_name(sent: RewrittenSchema) -> None:
    """Draft 3: a property says itself that it is required. And no name is there twice."""
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
    """Draft 7: items by their places are a list, those behind them something of their own. Lists say what they hold."""
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
    """Draft 7: what goes with a property, as names or as a schema, under one word."""
    if not isinstance(both := sent.get("dependencies"), Mapping):
        return
    del sent["dependencies"]
    listed = {key: [each] if isinstance(each, str) else each for key, each in both.items()}
    required = {key: each for key, each in listed.items() if isinstance(each, list)}
    schemas = {key: each for key, each in listed.items() if key not in required}
    for key, found in (("dependentRequired", required), ("dependentSchemas", schemas)):
        if found:
            sent[key] = {**found, **(known if isinstance(known := sent.get(key), Mapping) else {})}
