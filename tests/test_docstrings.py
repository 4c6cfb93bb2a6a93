"""A docstring that explains `name:` explains a parameter that the function has, or a name in its body."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("agent", "tui", "tools", "store", "bench")
_EXPLAINED = re.compile(r"(?:^|[.;:]\s|\n\s*)((?:`[a-z_]\w*`(?:, | and )?)+):")
"""One name or several at the beginning of a sentence, followed by a colon."""


def unknown_names(source: str) -> Iterator[tuple[int, str]]:
    """The explained names that do not occur in their function, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not (text := ast.get_docstring(node)):
            continue
        known = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        known |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        known |= {
            each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }
        for names in _EXPLAINED.findall(text):
            yield from ((node.lineno, name) for name in re.findall(r"`(\w+)`", names) if name not in known)


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_explain_parameters_that_exist(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in unknown_names(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_name_that_no_parameter_has_is_found() -> None:
    source = 'def f(limit):\n    """Cut. `limit`: in bytes. `most`: gone.\n\n    `a`, `limit` and `b`: too."""\n'
    assert list(unknown_names(source)) == [(1, "most"), (1, "a"), (1, "b")]
