"""Functions take the contexts that they work with; few take the whole of a session."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FUNCTIONS = 25
"""How many functions may take the whole context: the turn, the session and its composition."""


def takers(folder: str) -> Iterator[str]:
    """The functions of a folder that take a `SessionContext`."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                if any(arg.annotation and "SessionContext" in ast.unparse(arg.annotation) for arg in parameters):
                    yield f"{path.relative_to(ROOT)}: {node.name}"


def test_few_functions_take_the_whole_context() -> None:
    found = [name for folder in ("agent", "tui", "tools") for name in takers(folder)]
    assert "agent/turn.py: take_step" in found
    assert len(found) <= MAX_FUNCTIONS, "take the parts that the function uses instead:\n" + "\n".join(found)
