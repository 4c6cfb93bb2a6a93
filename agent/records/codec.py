"""Converts values to JSON and back, checking them against the types of dataclass fields."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
ValueReader: TypeAlias = Callable[[Any], Any] | type
"""Converts JSON to a value. A plain type means that the JSON value is used unchanged after a type check."""


def from_json(dataclass_type: Callable[..., T], data: Mapping[str, Any] | list[Any], **extra_fields: object) -> T:
    """Build the dataclass `dataclass_type` from a JSON object, or from a list of field values in order. `extra_fields`:
    values for fields that the JSON does not contain. Integers must not be negative. Raises `ValueError`, `KeyError`,
    `TypeError` or `AttributeError` if the data does not fit."""
    readers = _readers_of(dataclass_type)
    field_values = dict(zip(readers, data, strict=False)) if isinstance(data, list) else dict(data)
    for name, value in field_values.items():  # this loop must be fast, because sessions contain many values
        read = readers[name]
        if not isinstance(read, type):
            field_values[name] = read(value)
        elif not isinstance(value, read):
            raise ValueError(f"`{name}` is not of type {read.__name__}")
    return dataclass_type(**field_values, **extra_fields)


@cache
def _readers_of(dataclass_type: Callable[..., object]) -> Mapping[str, ValueReader]:
    return {name: _reader_of(hint) for name, hint in get_type_hints(dataclass_type).items()}


def _reader_of(hint: object) -> ValueReader:
    origin: Any = get_origin(hint) or hint
    type_arguments = get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(from_json, hint)
    if origin in (Union, UnionType):
        read, *other_readers = [_checked_reader_of(member) for member in type_arguments if member is not NoneType]
        return _raise_ambiguous_type if other_readers else lambda data: None if data is None else read(data)
    if origin is tuple and type_arguments[-1] is not ...:
        readers = tuple(map(_checked_reader_of, type_arguments))
        return lambda data: tuple([read(item) for read, item in zip(readers, data, strict=True)])
    if origin in (tuple, frozenset):
        read = _checked_reader_of(type_arguments[0])
        return lambda data: origin([read(item) for item in _check_type(list, data)])
    if origin is Mapping and type_arguments[1] is not object:
        read = _checked_reader_of(type_arguments[1])
        return lambda data: {name: read(value) for name, value in data.items()}
    if origin is Literal:
        return lambda data: type_arguments[type_arguments.index(data)]
    if hint is int:
        return parse_count
    if hint is float:
        return lambda data: data if isinstance(data, int) else _check_type(float, data)
    return dict if origin is Mapping else origin


def _checked_reader_of(hint: object) -> Callable[[Any], Any]:
    read = _reader_of(hint)
    return partial(_check_type, read) if isinstance(read, type) else read


def _raise_ambiguous_type(data: object) -> NoReturn:
    raise TypeError("the JSON does not say which of several types is meant")


def _check_type(expected_type: type, data: Any) -> Any:  # noqa: ANN401 - the type depends on `expected_type`
    if not isinstance(data, expected_type):
        raise ValueError(f"{data!r} is not of type {expected_type.__name__}")
    return data


def parse_count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def to_json(value: object) -> str:
    """Serialise a value as JSON for a database or file; dataclasses become objects. Lone surrogates, as in file names
    that cannot be decoded, are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_fields_of)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=_fields_of)
    return text


def _fields_of(value: object) -> dict[str, object]:
    """Return the fields of a dataclass. `asdict` is too slow here: it copies deeply, and some values are written at
    every step."""
    dataclass_type: Callable[..., object] = type(value)
    return {name: getattr(value, name) for name in _field_names(dataclass_type)}


@cache
def _field_names(dataclass_type: Callable[..., object]) -> tuple[str, ...]:
    """Return the field names of a dataclass. Raises `TypeError` for any other type."""
    return tuple(field.name for field in fields(cast(Any, dataclass_type)))
