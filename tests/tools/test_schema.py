"""Arguments checked against JSON Schema."""

import pytest

from ebbtide.tools.base import ToolError
from ebbtide.tools.schema import check, mismatches, object_of

SCHEMA = object_of({"path": {"type": "string"}, "limit": {"type": "integer"}}, ["path"])


def test_arguments_that_fit_pass() -> None:
    arguments = {"path": "a", "limit": 3}
    check(arguments, SCHEMA, "read")
    assert mismatches(arguments, SCHEMA) == []


def test_each_argument_that_does_not_fit_is_named() -> None:
    with pytest.raises(ToolError) as caught:
        check({"limit": "3", "more": 1}, SCHEMA, "read")
    assert [part in str(caught.value) for part in ("`read`", "`limit`", "'more'", '"path"')] == [True] * 4


def test_a_huge_value_does_not_fill_the_message() -> None:
    (message,) = mismatches({"path": ["x" * 10_000]}, SCHEMA)
    assert len(message) < 300


def test_a_schema_elsewhere_is_not_fetched() -> None:
    with pytest.raises(ValueError, match="is not fetched"):
        mismatches({}, {"$ref": "http://127.0.0.1:9/schema"})


def test_of_many_wrong_places_the_first_are_named() -> None:
    schema = object_of({"a": {"type": "array", "items": {"type": "string"}}}, required=("a",))
    assert mismatches({"a": [1] * 100_000}, schema) == ['`a.0`: 1 is not of type "string"']
    assert mismatches({"a": ["x"] * 100_000}, schema) == []
    with pytest.raises(ToolError) as caught:
        check({"a": [1] * 20}, schema, "t")
    named = "; ".join(f'`a.{at}`: 1 is not of type "string"' for at in range(10))
    assert str(caught.value) == f"the arguments of `t` are invalid, so it was not run: {named}; and more"
