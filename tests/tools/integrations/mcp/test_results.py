"""What a call gave back in two forms, as texts and as structured content: everything is shown, and nothing twice."""

import json

import mcp_types as types
import pytest

from ebbtide.tools.base import ImageData, Result
from ebbtide.tools.integrations.mcp.results import tool_result

LONG = "Entities deleted successfully"
GRAPH = {"entities": [{"name": "a"}], "relations": []}
PICTURE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
SHAPES: dict[str, tuple[list[object], object, str]] = {
    "the same as JSON": ([json.dumps(GRAPH, indent=2)], GRAPH, json.dumps(GRAPH, indent=2)),
    "the text under a name": (["one\ntwo"], {"content": "one\ntwo"}, "one\ntwo"),
    "its JSON under a name": (['[{"a": 1}]'], {"entities": [{"a": 1}]}, '[{"a": 1}]'),
    "texts of a list": (["one", "two"], {"result": ["one", "two"]}, "one\ntwo"),
    "the block itself": ([{"type": "text", "text": "one"}], {"content": [{"type": "text", "text": "one"}]}, "one"),
    "the text, and more": ([LONG], {"success": True, "message": LONG}, f'{LONG}\n{{"success": true}}'),
    "a number by accident": (["3"], {"x": 3, "y": 3}, '3\n{"x": 3, "y": 3}'),
    "a word by accident": (["ok"], {"state": "ok", "count": 1}, 'ok\n{"state": "ok", "count": 1}'),
    "another text": (["33 degrees"], {"celsius": 33}, '33 degrees\n{"celsius": 33}'),
    "a nested one": (["done"], {"a": {"b": ["done"]}}, 'done\n{"a": {"b": ["done"]}}'),
    "no text": ([], {"a": []}, '{"a": []}'),
    "empty": (["nothing"], {}, "nothing"),
    "none": (["nothing"], None, "nothing"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_structured_content_is_shown_where_the_texts_do_not_say_it(shape: str) -> None:
    texts, structured, visible = SHAPES[shape]
    content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in texts]
    answer = types.CallToolResult.model_validate({"content": content, "structuredContent": structured})
    assert tool_result(answer) == Result(visible)


def test_a_picture_is_not_told_in_letters_besides() -> None:
    answer = types.CallToolResult.model_validate({"content": [PICTURE], "structuredContent": {"content": [PICTURE]}})
    assert tool_result(answer) == Result("", images=(ImageData("image/png", b"\0\0\0"),))
