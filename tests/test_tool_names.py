"""A tool is one file: no other module names it by a literal, so that adding or removing it changes no other module."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.tools.tool_traits import builtin_traits

ROOT = Path(__file__).parent.parent
FOLDERS = ("agent", "tui", "tools")
WORDS = {
    "bash", "diagnostics", "edit", "grep", "memory", "read", "recall", "symbols", "task", "todo", "write",
}  # fmt: skip
"""Names that also mean something else: an effect, an answer to a question, a shell, a program, a slash command. They
count where a tool is meant: compared with a name, in a call or a rule, and three together in a table."""
NAMED = {"name", "tool", "ours"}
"""What a variable or attribute is called that is compared with a tool's name."""
TAKES_NAME = {"ToolCall": 1, "Call": 1, "RunningCall": 0, "PermissionRequest": 0, "Rule": 0}
"""Position of the tool's name among the arguments of these classes."""
OWN_FILES = {"tool_output_cache_grep": "tool_output_cache"}
"""Files with two tools."""
OTHER_MEANINGS = {
    **{
        (f"tools/{file}.py", "grep"): "the program"
        for file in (
            "commands/proof",
            "commands/scripts",
            "command_runs/read_only",
        )
    },
    ("agent/providers/registry.py", "tool_search"): "a fact about a model: how its API finds deferred tools",
    ("agent/config/table_keys.py", "tool_search"): "the setting for that fact",
    ("tui/integrations/models/table_conversion.py", "tool_search"): "that fact in an updated table",
    ("agent/providers/wires/openai_responses.py", "tool_search"): "the API's own search",
    **{
        (f"agent/providers/{file}.py", "web_search"): "the API's own search of the web"
        for file in ("search_report", "wires/anthropic", "wires/openai_responses")
    },
    ("agent/config/aliases.py", "tool_output_cache"): "a table in the settings of another agent",
    ("tools/grep.py", "glob"): "an argument of `grep`",
}


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def named_in(source: str, names: set[str]) -> set[str]:
    """The tools that a module names by a literal."""
    tree = ast.parse(source)
    clear = {text for node in ast.walk(tree) if (text := _text(node)) in names - WORDS}
    return clear | {text for node in ast.walk(tree) for text in _as_tool(node, names) if text in names}


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_name(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in NAMED) or (isinstance(node, ast.Name) and node.id in NAMED)


def _as_tool(node: ast.AST, names: set[str]) -> Iterator[str]:
    """Texts in places where a tool is meant."""
    match node:
        case ast.Compare(left=left, comparators=others):
            if any(map(_is_name, (left, *others))):
                yield from (_text(inner) for side in (left, *others) for inner in ast.walk(side))
        case ast.Match(subject=subject, cases=cases) if any(map(_is_name, ast.walk(subject))):
            yield from (_text(inner) for case in cases for inner in ast.walk(case.pattern))
        case ast.MatchClass(kwd_attrs=attributes, kwd_patterns=patterns):
            for attribute, pattern in zip(attributes, patterns, strict=True):
                if attribute in NAMED:
                    yield from map(_text, ast.walk(pattern))
        case ast.Call(func=ast.Name(id=made) | ast.Attribute(attr=made), args=arguments, keywords=keywords):
            if made in TAKES_NAME:
                yield from map(_text, arguments[TAKES_NAME[made] : TAKES_NAME[made] + 1])
                yield from (_text(one.value) for one in keywords if one.arg in NAMED)
        case ast.Dict(keys=keys):
            yield from _table([key for key in keys if key is not None], names)
        case ast.Tuple(elts=items) | ast.Set(elts=items) | ast.List(elts=items):
            yield from _table(items, names)


def _table(items: list[ast.expr], names: set[str]) -> list[str]:
    found = [text for item in items if (text := _text(item)) in names]
    return found if len({*found}) >= 3 else []


def test_only_a_tools_own_file_and_the_catalogue_name_it() -> None:
    names = {*builtin_traits()}
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in files()
        for name in named_in(path.read_text(encoding="utf-8"), names)
        if not (path.is_relative_to(ROOT / "tools") and path.stem == OWN_FILES.get(name, name))
    }
    assert found - OTHER_MEANINGS.keys() == set(), "use the tool's traits (`role_of`), or import it: `Bash.name`"
    assert OTHER_MEANINGS.keys() <= found, "these meanings are gone"


@pytest.mark.parametrize(
    "source",
    [
        'call.name == "bash"',
        'if tool in ("read", "x"): pass',
        'match call.name:\n    case "read" | "grep": pass',
        'match event:\n    case Started(name="todo"): pass',
        'ToolCall("1", "bash", {})',
        'Rule("edit")',
        'KINDS = {"read": 1, "grep": 2, "bash": 3}',
        'TOOLS = ("read", "grep", "write")',
        'x = "web_fetch"',
    ],
)
def test_a_named_tool_is_found(source: str) -> None:
    assert named_in(source, {*builtin_traits()})


@pytest.mark.parametrize(
    "source", ['effect == "read"', 'access = ("read", "write")', 'verdict: Literal["allow", "edit"]', '"""read"""']
)
def test_other_meanings_of_a_name_are_not(source: str) -> None:
    assert named_in(source, {*builtin_traits()}) == set()
