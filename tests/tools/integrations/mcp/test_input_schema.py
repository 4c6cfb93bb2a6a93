"""Schemas of tools in the form that every provider takes: what they allow stays the same."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import pytest

from ebbtide.tools.call_arguments.schema import schema_violations
from ebbtide.tools.integrations.mcp.input_schema import iter_schema_texts, portable_schema
from tests.kit.strict_api import refusal

DRAFT_4, DRAFT_7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
NUMBERS = {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}
FORMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"type": "object", "properties": {}}),
    ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
    ({"$schema": DRAFT_4, "type": "object", "properties": NUMBERS},
     {"type": "object", "properties": {"n": {"type": "number", "exclusiveMinimum": 0}}}),
    ({"$schema": DRAFT_4, "type": "object",
      "properties": {"n": {"maximum": 9, "exclusiveMaximum": False}}},
     {"type": "object", "properties": {"n": {"maximum": 9}}}),
    ({"$schema": DRAFT_7, "type": "object",
      "properties": {"p": {"type": "array", "items": [{"type": "string"}, {}], "additionalItems": False}}},
     {"type": "object", "properties": {
         "p": {"type": "array", "prefixItems": [{"type": "string"}, {}], "items": False}}}),
    ({"type": "object", "properties": {"items": {"type": ["array", "null"]}, "type": {"type": "array", "items": True}}},
     {"type": "object", "properties": {
         "items": {"type": ["array", "null"], "items": {}}, "type": {"type": "array", "items": {}}}}),
    ({"$schema": DRAFT_7, "type": "object",
      "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
     {"type": "object", "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}},
      "properties": {}}),
    ({"type": "object", "required": None, "properties": {"a": {"default": None, "description": None}}},
     {"type": "object", "properties": {"a": {"default": None}}}),
    ({"type": "object", "properties": {"a": {"required": True, "type": "any"}, "required": {"type": "string"}},
      "required": ["required", "required"]},
     {"type": "object", "properties": {"a": {}, "required": {"type": "string"}}, "required": ["required", "a"]}),
    ({"$ref": "#/definitions/A", "definitions": {"A": {"properties": {"next": {"$ref": "#/definitions/A"}}}}},
     {"definitions": {"A": {"properties": {"next": {"$ref": "#/definitions/A"}}}}, "type": "object",
      "properties": {"next": {"$ref": "#/definitions/A"}}}),
    ({"$ref": "#/definitions/A", "definitions": {"A": {"$ref": "#/definitions/A"}}},
     {"definitions": {"A": {"$ref": "#/definitions/A"}}, "$ref": "#/definitions/A", "type": "object",
      "properties": {}}),
    ({"type": "string"}, {"type": "string"}),
]  # fmt: skip
ARGUMENTS: list[Mapping[str, Any]] = [
    {}, {"n": 0}, {"n": 1}, {"n": 10}, {"p": []}, {"p": ["a", 1]}, {"p": [1]}, {"p": ["a", 1, 2]}, {"a": 1},
    {"a": 1, "b": 2}, {"c": 1}, {"c": 1, "d": 1}, {"next": {}}, {"items": [1]}, {"items": {}}, {"type": 1},
]  # fmt: skip


@pytest.mark.parametrize(("listed", "sent"), FORMS)
def test_a_schema_is_put_so_that_every_provider_takes_it(listed: dict[str, Any], sent: dict[str, Any]) -> None:
    assert portable_schema(listed) == sent
    assert portable_schema(sent) == sent


@pytest.mark.parametrize("listed", [listed for listed, _ in FORMS if "$schema" in listed])
def test_the_new_form_allows_what_the_old_one_did_and_no_more(listed: dict[str, Any]) -> None:
    before, after = jsonschema_rs.validator_for(listed), portable_schema(listed)
    for arguments in ARGUMENTS:
        assert (not schema_violations(arguments, after)) == before.is_valid(arguments), arguments


@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
def test_what_came_as_one_api_refuses_it_does_not_leave_so(wire: Any) -> None:
    def body(schema: Mapping[str, Any]) -> dict[str, Any]:
        tool = {"name": "t", "description": "A tool."}
        user = [{"role": "user", "content": "hello"}]
        if wire == "anthropic":
            return {"messages": user, "max_tokens": 99, "tools": [{**tool, "input_schema": schema}]}
        if wire == "chat":
            chat = {"type": "function", "function": {**tool, "parameters": schema}}
            return {"messages": user, "max_tokens": 99, "tools": [chat]}
        return {"input": user, "max_output_tokens": 99, "tools": [{"type": "function", **tool, "parameters": schema}]}

    objects = [listed for listed, sent in FORMS if sent["type"] == "object"]
    assert any(refusal(wire, body(listed)) for listed in objects)
    assert [refusal(wire, body(portable_schema(listed))) for listed in objects] == [None] * len(objects)


def test_whatever_a_model_can_read_in_a_schema_is_told_with_the_way_to_it() -> None:
    inner = {
        "description": "Each.",
        "properties": {"size": {"enum": ["s", "m"], "default": "s"}, "n": {"type": "null"}},
    }
    properties = {"order": {"items": inner}, "x": {"description": "An x.", "const": "y"}}
    more = {"$defs": {"A": {"title": "An A."}}, "x-more": {"hint": ["one", {"two": "three"}]}}
    schema = {"type": "object", "properties": properties, "required": ["x"], **more}
    assert list(iter_schema_texts(schema)) == [
        ("order", ""),
        ("order.items", "Each."),
        ("order.items.size", ""),
        ("order.items.size.enum", "s, m"),
        ("order.items.size.default", "s"),
        ("order.items.n", ""),
        ("x", "An x."),
        ("x.const", "y"),
        ("$defs.A", ""),
        ("$defs.A.title", "An A."),
        ("x-more.hint", "one"),
        ("x-more.hint.two", "three"),
    ]
