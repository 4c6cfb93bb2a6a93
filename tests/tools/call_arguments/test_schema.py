"""Arguments checked against JSON Schema."""

import pytest

from ebbtide.tools.base import ToolError
from ebbtide.tools.call_arguments.schema import object_schema, schema_violations, validate_arguments

SCHEMA = object_schema({"path": {"type": "string"}, "limit": {"type": "integer"}}, ["path"])


def test_arguments_that_fit_pass() -> None:
    arguments = {"path": "a", "limit": 3}
    validate_arguments(arguments, SCHEMA, "read")
    assert schema_violations(arguments, SCHEMA) == []


def test_each_argument_that_does_not_fit_is_named() -> None:
    with pytest.raises(ToolError) as caught:
        validate_arguments({"limit": "3", "more": 1}, SCHEMA, "read")
    assert [part in str(caught.value) for part in ("`read`", "`limit`", "'more'", '"path"')] == [True] * 4


def test_a_huge_value_does_not_fill_the_message() -> None:
    (message,) = schema_violations({"path": ["x" * 10_000]}, SCHEMA)
    assert len(message) < 300


def test_a_schema_elsewhere_is_not_fetched() -> None:
    with pytest.raises(ValueError, match="is not fetched"):
        schema_violations({}, {"$ref": "http://127.0.0.1:9/schema"})


def test_of_many_wrong_places_the_first_are_named() -> None:
    schema = object_schema({"a": {"type": "array", "items": {"type": "string"}}}, required=("a",))
    assert schema_violations({"a": [1] * 100_000}, schema) == ['`a.0`: 1 is not of type "string"']
    assert schema_violations({"a": ["x"] * 100_000}, schema) == []
    with pytest.raises(ToolError) as caught:
        validate_arguments({"a": [1] * 20}, schema, "t")
    named = "; ".join(f'`a.{at}`: 1 is not of type "string"' for at in range(10))
    assert str(caught.value) == f"the arguments of `t` are invalid, so it was not run: {named}; and more"
