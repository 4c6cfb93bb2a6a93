"""JSON as models write it by hand: what is read, and what is not since it is half or could mean two things."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.providers.loose_json import parse_document, parse_value

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=6,
)
# Python writes these in ways of its own (`\U0001f600`, `\x00`); what models write is a character or a JSON escape.
PRINTED = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=12)


def is_read(text: str) -> bool:
    try:
        parse_document(text)
    except ValueError:
        return False
    return True


@given(VALUES, st.floats(0, 1, exclude_max=True))
def test_json_is_read_as_json_and_no_beginning_of_an_object_is(value: Any, cut: float) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse_document(text) == value
        assert parse_value(f"x {text}", 2) == (value, len(text) + 2)
    whole = json.dumps({"a": value})
    assert not is_read(whole[: int(cut * len(whole))])


@given(
    st.dictionaries(PRINTED, PRINTED | st.booleans() | st.none() | st.lists(PRINTED, max_size=3), max_size=4),
    st.floats(0, 1, exclude_max=True),
)
def test_what_python_prints_is_read_and_no_beginning_of_it(value: dict[str, Any], cut: float) -> None:
    whole = repr(value)
    assert parse_document(whole) == value
    assert not is_read(whole[: int(cut * len(whole))])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ("{'a': True, 'b': None, 'c': -1.5e3}", {"a": True, "b": None, "c": -1500.0}),
        ('{"a": "it\\\'s"}', {"a": "it's"}),
        ('{"pattern": "\\d+\\n"}', {"pattern": "\\d+\n"}),
        ('{"a": """x = "1"\n\\"""", "b": 1}', {"a": 'x = "1"\n"', "b": 1}),
        ("{'a': '\\ud83d\\ude00'}", {"a": "\U0001f600"}),
    ],
)  # fmt: skip
def test_what_models_write_by_hand_is_read(text: str, value: object) -> None:
    assert parse_document(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "echo "b""}',
        '{"a": "echo ", "b" c"}',
        "{'a': 'don't'}",
        '{"a": "b" + "c"}',
        '{"a": "b" "c"}',
        "{'a': f'b'}",
        '{"a": 01}',
        '{"a": NaN}',
        '{"a": Truely}',
        '{"a": "\\ud83d",}',
        '{"a" "b"}',
        "{,}",
        '{"a": 1} and more',
        "{'a': " * 200,
        '{"a": "' + "x\\" * 200_000,
        "",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_what_is_not_whole_or_could_mean_two_things_is_not_read(text: str) -> None:
    assert not is_read(text)
