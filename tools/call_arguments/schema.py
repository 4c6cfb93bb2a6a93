"""Argument validation against JSON Schema, and typed access to validated arguments."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from ebbtide.tools.base import Arguments, ToolError

if TYPE_CHECKING:  # for type checking only: imported in `schema_violations` when needed
    import jsonschema_rs

T = TypeVar("T", str, int, bool)

MAX_REPORTED_ERRORS = 10
"""Maximum number of schema violations to report."""
MAX_FULLY_CHECKED_ITEMS = 10_000
"""Maximum number of items in a fully checked value. For a value with more items, only the first error is reported."""
MAX_CACHED_VALIDATORS = 64
"""Maximum number of compiled schemas in the cache."""
MAX_NESTING_DEPTH = 100
"""Maximum nesting depth of arguments."""


def object_schema(properties: Mapping[str, object], required: Sequence[str]) -> Mapping[str, object]:
    """Build the schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def validate_arguments(arguments: Arguments, schema: Mapping[str, object], tool: str) -> None:
    """Validate the arguments. Raises `ToolError`, which names each invalid argument."""
    problems = schema_violations(arguments, schema)
    if problems:
        reported = [*problems[:MAX_REPORTED_ERRORS], *(["and more"] if len(problems) > MAX_REPORTED_ERRORS else [])]
        raise ToolError(f"the arguments of `{tool}` are invalid, so it was not run: {'; '.join(reported)}")


def schema_violations(value: object, schema: Mapping[str, object]) -> list[str]:
    """Return messages for the first few violations of the schema (JSON Schema 2020-12), in document order."""
    validator = _compile_validator(json.dumps(schema))
    as_dict = dict(value) if isinstance(value, Mapping) else value
    violations = []
    for error in _first_errors(validator, as_dict):
        path = ".".join(str(key) for key in error.instance_path)
        message = error.message if len(error.message) <= 200 else f"{error.message[:100]} … {error.message[-99:]}"
        violations.append(f"`{path}`: {message}" if path else message)
    return violations


@lru_cache(maxsize=MAX_CACHED_VALIDATORS)
def _compile_validator(schema: str) -> "jsonschema_rs.Validator":
    """Compile a validator for a schema in JSON. Cached, because compiling takes ten times as long as validating."""
    import jsonschema_rs  # noqa: PLC0415  # deferred: a compiled library that runs without tool calls do not need

    return jsonschema_rs.validator_for(schema, retriever=_refuse_fetch)


def _first_errors(validator: "jsonschema_rs.Validator", value: object) -> "Sequence[jsonschema_rs.ValidationError]":
    """Return the first errors. For a value with very many items, return only one, because the library collects all
    errors first."""
    import jsonschema_rs  # noqa: PLC0415  # deferred: as above

    members = value.values() if isinstance(value, dict) else ()
    if sum(len(member) for member in members if isinstance(member, list | dict)) <= MAX_FULLY_CHECKED_ITEMS:
        return list(islice(validator.iter_errors(value), MAX_REPORTED_ERRORS + 1))
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def is_nested_deeper(value: object, max_depth: int) -> bool:
    """Whether the value is nested too deeply to validate or copy: deeper than `max_depth`."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if max_depth == 0:
        return bool(children)
    return any(is_nested_deeper(item, max_depth - 1) for item in children if isinstance(item, dict | list))


def has_float(value: object) -> bool:
    """Whether the value contains a float. JSON Schema accepts a float such as 1.0 as an integer, but Python does
    not."""
    children = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return isinstance(value, float) or any(map(has_float, children))


def _refuse_fetch(uri: str) -> dict[str, Any]:
    """Refuse to fetch a referenced schema, because third-party schemas must not cause network requests."""
    raise ValueError(f"`{uri}` is not fetched; put the schema that it refers to under `$defs`")


def schema_problem(schema: Mapping[str, object]) -> str:
    """Explain in one sentence why the schema is invalid. Empty if it is valid."""
    import jsonschema_rs  # noqa: PLC0415  # deferred: as above

    try:
        jsonschema_rs.validator_for(dict(schema), retriever=_refuse_fetch)
    except ValueError as error:  # every error that the library raises is a ValueError
        return str(error).partition("\n")[0]
    return ""


def get_text(arguments: Arguments, name: str, default: str | None = None) -> str:
    return _typed_argument(arguments, name, str, default)


def get_number(arguments: Arguments, name: str, default: int) -> int:
    return _typed_argument(arguments, name, int, default)


def get_flag(arguments: Arguments, name: str) -> bool:
    return _typed_argument(arguments, name, bool, False)


def get_items(arguments: Arguments, name: str) -> tuple[object, ...]:
    """Return the items of a list argument; empty if it was omitted."""
    value = arguments.get(name) or ()
    if not isinstance(value, list | tuple):
        raise ToolError(f"`{name}` must be a list")
    return tuple(value)


def _typed_argument(arguments: Arguments, name: str, kind: type[T], default: T | None) -> T:
    value = arguments.get(name)
    if value is None:
        value = default
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 is an integer in JSON Schema
    if not isinstance(value, kind):
        raise ToolError(f"`{name}` is missing" if value is None else f"`{name}` must be of type {kind.__name__}")
    return value
