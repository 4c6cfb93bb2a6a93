"""Optional parts of the program: without any one of them, the rest works."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SIDES = ("agent", "tui", "tools")
FOLDERS = sorted({path.parent.name for side in SIDES for path in (ROOT / side / "integrations").glob("*/__init__.py")})

_SUBCOMMANDS = {"browser": "serve", "claude_code": "claude-code", "imports": "import"}
"""Subcommands that are not called by their folder."""


def test_there_are_integrations() -> None:
    assert FOLDERS == [
        "acp", "batch", "browser", "claude_code", "code_map", "doctor", "export", "imports", "lsp", "mcp", "mcp_server",
        "models", "review", "semantic_search", "sign_in", "small_models", "telemetry",
    ]  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_program_works_without_an_integration(folder: str, tmp_path: Path) -> None:
    package = _copy_without(folder, tmp_path / "ebbtide")
    lists = _run(package, tmp_path, "--help")
    solves = _run(package, tmp_path, "demo", "--print")
    assert (lists.returncode, lists.stderr) == (0, "")
    assert "ebb sessions" in lists.stdout
    assert f"  ebb {_SUBCOMMANDS.get(folder, folder)} " not in lists.stdout
    assert solves.returncode == 0, solves.stderr
    assert "Traceback" not in solves.stderr


def _copy_without(folder: str, package: Path) -> Path:
    """Copy the package without a folder and its rows."""
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "ebbtide", package, symlinks=False, ignore=skip)
    for side in SIDES:
        shutil.rmtree(package / side / "integrations" / folder, ignore_errors=True)
        rows = package / side / "integration_registry.py"
        rows.write_text(_without_rows(rows.read_text(), folder))
    return package


def _without_rows(source: str, folder: str) -> str:
    """The tables of rows without the lines of those that name a place in the folder."""
    lines: list[str | None] = [*source.splitlines(keepends=True)]
    for table in ast.walk(ast.parse(source)):
        match table:
            case ast.Dict(keys=keys, values=values):
                rows = [(key or value, value) for key, value in zip(keys, values, strict=True)]
            case ast.Tuple(elts=elements):
                rows = [(element, element) for element in elements]
            case _:
                continue
        for first, row in rows:
            if any(_is_place(node, folder) for node in ast.walk(row)):
                lines[first.lineno - 1 : row.end_lineno] = [None] * ((row.end_lineno or 0) - first.lineno + 1)
    return "".join(line for line in lines if line is not None)


def _is_place(node: ast.AST, folder: str) -> bool:
    return isinstance(node, ast.Constant) and re.match(rf"{folder}[.:]", str(node.value)) is not None


def _run(package: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    loads = f"import ebbtide.tui.cli.main as program; assert program.__file__.startswith({str(package)!r})"
    command = [sys.executable, "-c", f"{loads}; raise SystemExit(program.main())", *words]
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=120)
