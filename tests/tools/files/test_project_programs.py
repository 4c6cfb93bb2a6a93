"""Which programs of a project are taken for the tool that they are called, with real files and their real times."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from ebbtide.tools.files.project_programs import trusted_launches
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox
from tests.kit.files import write_file

PYTEST = (".venv/bin/pytest", "-q")


def program(path: Path) -> float:
    """Makes a program; when it was changed last."""
    write_file(path, "#!/bin/sh\n")
    return path.stat().st_ctime


def test_a_program_is_trusted_until_it_is_changed(workspace: Workspace) -> None:
    path = workspace.root / ".venv" / "bin" / "pytest"
    later = replace(workspace, started_at=program(path) + 1)
    assert trusted_launches(".venv/bin/pytest -q | tail", later) == {PYTEST}
    assert trusted_launches("cd sub && .venv/bin/pytest -q", later) == frozenset()
    assert trusted_launches(".venv/bin/mypy", later) == frozenset()
    earlier = replace(workspace, started_at=path.stat().st_ctime)
    os.utime(path, (0, 0))  # says that it is old
    assert trusted_launches(".venv/bin/pytest -q", earlier) == frozenset()


def test_a_link_that_the_model_makes_to_an_old_program_is_not_trusted(workspace: Workspace) -> None:
    old, link = workspace.root / "old", workspace.root / ".venv" / "bin" / "pytest"
    since = program(old) + 0.001
    link.parent.mkdir(parents=True)
    link.symlink_to(old)
    while link.lstat().st_ctime < since:  # clocks of files tick some hundred times a second
        link.unlink()
        link.symlink_to(old)
    assert trusted_launches(".venv/bin/pytest -q", replace(workspace, started_at=since)) == frozenset()


def test_an_environment_is_activated_where_the_programs_of_the_line_in_it_are_old(workspace: Workspace) -> None:
    folder = workspace.root / ".venv" / "bin"
    since = max(map(program, (folder / "activate", folder / "pytest"))) + 1
    later, line = replace(workspace, started_at=since), "source .venv/bin/activate && CI=1 pytest -q"
    assert trusted_launches(line, later) == {("source", ".venv/bin/activate")}
    os.utime(folder / "pytest", (0, 0))
    changed = replace(workspace, started_at=(folder / "pytest").stat().st_ctime)
    assert trusted_launches(line, changed) == frozenset()
    (folder / "activate").unlink()
    assert trusted_launches("source .venv/bin/activate && ls", later) == frozenset()


def test_what_npx_would_fetch_is_not_the_tool_of_the_project(workspace: Workspace) -> None:
    assert trusted_launches("npx jest", workspace) == frozenset()
    program(workspace.root / "node_modules" / ".bin" / "jest")
    assert trusted_launches("npx jest", workspace) == {("npx", "jest")}


@pytest.mark.skipif(isinstance(detect_sandbox(), NoSandbox), reason="there is no sandbox here")
def test_where_a_sandbox_holds_it_a_tool_that_runs_no_code_of_the_project_may_come_from_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    sandboxed = replace(workspace, sandbox=Sandbox(workspace.root, tmp_path / "private"))
    for line in ("uv run ruff check", "python -m black .", "poetry run python manage.py"):
        assert trusted_launches(line, sandboxed) == {tuple(line.split())}
        assert trusted_launches(line, workspace) == frozenset()
