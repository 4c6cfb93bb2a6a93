"""Argument validation against JSON Schema, and typed access to validated arguments."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from ebbtide.tools.base import Arguments, ToolError

if TYPE_CHECKING:  # a type only: see `mismatches`
    import jsonschema_rs

T = TypeVar("T", str, int, bool)

MAX_NAMED_PLACES = 10
"""Maximum number of schema violations reported."""
MAX_ITEMS = 10_000
"""Values with more items than this get only their first error reported."""
MAX_VALIDATORS = 64
"""Maximum number of compiled schemas in the cache."""
MAX_DEPTH = 100
"""Maximum nesting depth of arguments."""


def object_of(properties: Mapping[str, object], required: Sequence[str]) -> Mapping[str, object]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def check(arguments: Arguments, schema: Mapping[str, object], tool: str) -> None:
    """Validate the arguments. Raises `ToolError` that names each invalid argument."""
    problems = mismatches(arguments, schema)
    if problems:
        named = [*problems[:MAX_NAMED_PLACES], *(["and more"] if len(problems) > MAX_NAMED_PLACES else [])]
        raise ToolError(f"the arguments of `{tool}` are invalid, so it was not run: {'; '.join(named)}")


def mismatches(value: object, schema: Mapping[str, object]) -> list[str]:
    """Return one sentence for each of the first violations of the schema (JSON Schema 2020-12), in document order."""
    validator = _validator(json.dumps(schema))
    plain = dict(value) if isinstance(value, Mapping) else value
    found = []
    for error in _errors_of(validator, plain):
        where = ".".join(str(step) for step in error.instance_path)
        message = error.message if len(error.message) <= 200 else f"{error.message[:100]} … {error.message[-99:]}"
        found.append(f"`{where}`: {message}" if where else message)
    return found


@lru_cache(maxsize=MAX_VALIDATORS)
def _validator(schema: str) -> "jsonschema_rs.Validator":
    """Return the validator for a schema given as JSON. Cached: compiling a schema takes ten times as long as a
    check."""
    import jsonschema_rs  # noqa: PLC0415  # deferred: a compiled library that runs without tool calls do not need

    return jsonschema_rs.validator_for(schema, retriever=_not_fetched)


def _errors_of(validator: "jsonschema_rs.Validator", value: object) -> "Sequence[jsonschema_rs.ValidationError]":
    """Return the first errors, or only one for a value with very many items, since the library collects all of them
    first."""
    import jsonschema_rs  # noqa: PLC0415  # deferred: as above

    members = value.values() if isinstance(value, dict) else ()
    if sum(len(each) for each in members if isinstance(each, list | dict)) <= MAX_ITEMS:
        return list(islice(validator.iter_errors(value), MAX_NAMED_PLACES + 1))
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def is_nested(value: object, levels: int) -> bool:
    """Whether the value is nested deeper than `levels`, too deep to validate or to copy."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if levels == 0:
        return bool(inner)
    return any(is_nested(item, levels - 1) for item in inner if isinstance(item, dict | list))


def has_float(value: object) -> bool:
    """Whether the value contains an integral float such as 1.0, which is an integer in JSON Schema but not in
    Python."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return isinstance(value, float) or any(map(has_float, inner))


def _not_fetched(uri: str) -> dict[str, Any]:
    """Refuse to fetch: a third party's schema must not trigger network requests."""
    raise ValueError(f"`{uri}` is not fetched; put the schema that it names under `$defs`")


def fault(schema: Mapping[str, object]) -> str:
    """Return why the schema cannot be used, in one sentence, or an empty string if it can."""
    import jsonschema_rs  # noqa: PLC0415  # deferred: as above

    try:
        jsonschema_rs.validator_for(dict(schema), retriever=_not_fetched)
    except ValueError as error:  # every error of the library is a ValueError
        return str(error).partition("\n")[0]
    return ""


def text(arguments: Arguments, name: str, default: str | None = None) -> str:
    return _value(arguments, name, str, default)


def number(arguments: Arguments, name: str, default: int) -> int:
    return _value(arguments, name, int, default)


def flag(arguments: Arguments, name: str) -> bool:
    return _value(arguments, name, bool, False)


def items(arguments: Arguments, name: str) -> tuple[object, ...]:
    """Return the items of a list, or none if it was omitted."""
    value = arguments.get(name) or ()
    if not isinstance(value, list | tuple):
        raise ToolError(f"`{name}` must be a list")
    return tuple(value)


def _value(arguments: Arguments, name: str, kind: type[T], default: T | None) -> T:
    value = arguments.get(name)
    if value is None:
        value = default
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 is an integer in JSON Schema
    if not isinstance(value, kind):
        raise ToolError(f"`{name}` is missing" if value is None else f"`{name}` must be of type {kind.__name__}")
    return value
