"""Tool calls in the JavaScript of Codex's code mode. The first example follows a session of entireio/entire-graph."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.context.code_mode import NestedCall, nested_calls, without_lone_surrogates

LITERALS = st.recursive(
    st.text(max_size=20) | st.booleans() | st.integers(-(10**9), 10**9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def test_calls_of_a_real_script_are_found_in_order() -> None:
    code = """const out = await Promise.all([
  tools.exec_command({cmd:"git status --short --branch",workdir:"/app",yield_time_ms:10000}),
  tools.exec_command({cmd:'rg -n "a\\'b" .\\ngit log', workdir:"/app"})
]);
text("status:\\n"+out[0].output);
"""
    assert nested_calls(code) == [
        NestedCall("exec_command", {"cmd": "git status --short --branch", "workdir": "/app", "yield_time_ms": 10000}),
        NestedCall("exec_command", {"cmd": 'rg -n "a\'b" .\ngit log', "workdir": "/app"}),
    ]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("patch", "*** Begin Patch\n+`x` ${y}"),
        ('"a" + `b\n` + \'c\'', "ab\nc"),
        ('["one", "two"].join("\\n")', "one\ntwo"),
        (r"String.raw`C:\new`", r"C:\new"),
        (r'"\u{1F600}\ud83d\ude00\x41\ud800"', "😀😀A\ufffd"),
        ("{cmd: `ls ${folder}`, workdir: '/app', n: f(1, [2]), }", {"workdir": "/app"}),
        ("{patch, // the change\n 'a-b': [1, -2.5, 1e3, 0x1F, true, null]}",
         {"patch": "*** Begin Patch\n+`x` ${y}", "a-b": [1, -2.5, 1000.0, 31, True, None]}),
        ("{cmd, ...rest}", None),
        ("args", None),
        ("`ls ${folder}`", None),
        ("patch.trim()", None),
        ("patch + name", None),
        ("'ls' + 1", None),
        ("", None),
        ("[" * 5000, None),
    ],
)  # fmt: skip
def test_what_an_argument_says_is_known_if_it_is_written_there(argument: str, value: object) -> None:
    code = 'const patch = "*** Begin Patch\\n+`x` ${y}";\ntext(await tools.run(' + argument + "));"
    assert nested_calls(code) == [NestedCall("run", value)]  # type: ignore[arg-type]  # any value of a case


def test_only_calls_that_run_are_found() -> None:
    code = (
        "// @exec: {\"yield_time_ms\": 10}\n// tools.a()\n/* tools.b() */ text('tools.c()'); my.tools.d();"
        "const files = await tools['mcp__x__read']({n: 1}); const later = async () => 3;"
    )
    assert nested_calls(code) == [NestedCall("mcp__x__read", {"n": 1})]


def test_a_constant_that_is_computed_is_unknown() -> None:
    assert nested_calls("const a = 5 * n; const b = 'x'\nconst c = b; tools.run({a, b, c})") == [
        NestedCall("run", {"b": "x", "c": "x"})
    ]


@given(LITERALS)
def test_json_is_read_as_it_is(value: Any) -> None:
    expected = json.loads(without_lone_surrogates(json.dumps(value, ensure_ascii=False)))
    assert nested_calls(f"await tools.run({json.dumps(value)});") == [NestedCall("run", expected)]


@given(st.text(alphabet="tools.x({[]})\"'`\\\n,:+$ /*const a=1", max_size=80))
def test_any_text_is_read_to_its_end(text: str) -> None:
    assert all(call.name for call in nested_calls(f"tools.x({text}"))


def test_large_scripts_take_no_longer_than_their_size() -> None:
    assert len(nested_calls("tools.x({cmd: `\\`" * 20_000)) == 1
    assert len(nested_calls("tools.x({a: {" * 2_000)) == 2_000
