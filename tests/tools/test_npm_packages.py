"""Projects in which `npm ls` could do more than list packages."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ebbtide.tools.npm_packages import npm_doubt


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".npmrc").write_text("registry=https://registry.example\n")
    root = tmp_path / "project"
    for name in ("", "node_modules/ms", "node_modules/@a/b", "node_modules/ms/node_modules/x"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "package.json").write_text('{"name": "x"}')
    (root / "node_modules" / ".bin").mkdir()
    (root / "node_modules" / ".bin" / "ms").symlink_to("../ms/x")
    return root


def test_packages_of_a_plain_project_can_be_listed(project: Path) -> None:
    assert npm_doubt(project) == ""


def _linked_file(package: Path) -> None:
    package.mkdir()
    (package / "package.json").symlink_to("/etc/passwd")


CHANGES: dict[str, Callable[[Path], object]] = {
    "npm obeys": lambda root: (root / ".npmrc").write_text("node-options=--require ./x.js\n"),
    "npm obeys `": lambda root: (root / ".npmrc").symlink_to("nothing"),
    "workspaces": lambda root: (root / "package.json").write_text('{"\\u0077orkspaces": ["../*"]}'),
    "no readable": lambda root: (root / "package.json").write_text("SECRET"),
    "`node_modules/out` is a link": lambda root: (root / "node_modules/out").symlink_to("/etc"),
    "`node_modules/@a/out` is a link": lambda root: (root / "node_modules/@a/out").symlink_to("/etc"),
    "`node_modules/ms/node_modules/y` is a link": lambda root: _linked_file(root / "node_modules/ms/node_modules/y"),
}


@pytest.mark.parametrize("said", CHANGES)
def test_what_leads_npm_elsewhere_is_named(project: Path, said: str) -> None:
    CHANGES[said](project)
    assert said in npm_doubt(project)


def test_settings_above_the_folder_are_obeyed(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "package.json").write_text("{}")
    assert npm_doubt(inner) == f"npm obeys `{project / 'package.json'}`"
