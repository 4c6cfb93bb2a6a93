"""Generates the JSON Schema of `stream-json` output from the classes of its lines."""

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Union, get_args, get_type_hints, is_typeddict

from pydantic import TypeAdapter

from ebbtide.agent.events.session import Event
from ebbtide.agent.headless.json_output import event_type_name
from ebbtide.agent.headless.result import RunResult
from ebbtide.agent.headless.stream_events import SCHEMA_VERSION, StreamEvent

if TYPE_CHECKING:  # a type that exists only in type stubs
    from _typeshed import DataclassInstance

LINES: tuple[type["DataclassInstance"], ...] = (*get_args(StreamEvent), *get_args(Event), RunResult)
"""The classes whose instances are printed as lines."""


def stream_schema() -> str:
    """Return the schema of an output line, with a definition for each kind of line and nested value."""
    line: Any = Union[LINES]  # noqa: UP007  # the classes are in a tuple
    made = TypeAdapter(line).json_schema(mode="serialization")
    classes = _classes()
    definitions = {name: _object(made["$defs"][name], classes[name]) for name in sorted(made["$defs"])}
    for kind in LINES:
        printed = definitions[kind.__name__]
        printed["properties"] = {"type": {"const": event_type_name(kind)}, **printed["properties"]}
        printed["required"] = [*printed["properties"]]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of `ebb -p --output-format stream-json`, version {SCHEMA_VERSION}",
        "description": "The first line is a RunStarted where a session could be opened, the last a RunResult, which "
        "`--output-format json` prints alone. Within a version kinds of lines, fields and values may be added, and "
        "none go.",
        "anyOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in LINES],
        "$defs": definitions,
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _object(definition: Mapping[str, Any], kind: type[object]) -> dict[str, Any]:
    """Return the schema of a class; every field is required, since all are always printed."""
    texts = dict(_field_texts(kind))
    properties = {
        name: {**_plain(schema), **({"description": texts[name]} if name in texts else {})}
        for name, schema in definition.get("properties", {}).items()
    }
    about = {"description": " ".join((inspect.getdoc(kind) or "").split())}
    return {"type": "object", **about, "properties": properties, "required": [*properties]}


def _plain(schema: Any) -> Any:  # noqa: ANN401  # any part of a schema
    """Remove the titles and defaults that pydantic adds."""
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name not in ("title", "default")}
    return [_plain(item) for item in schema] if isinstance(schema, list) else schema


def _field_texts(kind: type[object]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class that have a docstring."""
    (made,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    for field, text in zip(made.body, made.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            yield field.target.id, " ".join(str(ast.literal_eval(text.value)).split())


def _classes() -> Mapping[str, type[object]]:
    """Return the classes of lines and nested values, by name."""
    found: dict[str, type[object]] = {}
    waiting: list[object] = [*LINES]
    while waiting:
        each = waiting.pop()
        waiting += get_args(each)
        if isinstance(each, type) and (is_dataclass(each) or is_typeddict(each)) and each.__name__ not in found:
            found[each.__name__] = each
            waiting += get_type_hints(each).values()
    return found
