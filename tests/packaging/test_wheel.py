"""What is in the wheel and the sdist, and how the wheel is made."""

import ast
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator

import pytest

from agent.config.options import OPTIONS
from hatch_build import moved
from tests.kit.installation import Installation
from tests.running import ROOT

OURS = ("agent", "tui", "tools", "store")


def test_the_only_public_name_is_ebbtide(installation: Installation) -> None:
    names = zipfile.ZipFile(installation.wheel).namelist()
    shared = sorted(name.partition(".data/data/")[2] for name in names if ".data/" in name)
    assert shared == [
        "share/bash-completion/completions/ebb",
        "share/fish/vendor_completions.d/ebb.fish",
        "share/man/man1/ebb.1",
        "share/zsh/site-functions/_ebb",
    ]
    inside = [name for name in names if ".dist-info/" not in name and ".data/" not in name]
    assert {name.split("/")[0] for name in inside} == {"ebbtide"}
    for needed in (
        "ebbtide/__init__.py",
        "ebbtide/py.typed",
        "ebbtide/_app/agent/input/base_text.md",
        "ebbtide/_app/agent/providers/models.json",
        "ebbtide/_app/tools/bash.md",
        "ebbtide/_app/tui/app.tcss",
        "ebbtide/_app/tui/dialogs.tcss",
        "ebbtide/_app/tui/session/demo_project/script.toml",
    ):
        assert needed in names
    assert not [name for name in names if "/tests/" in name or name.endswith(".pyc")]


def test_the_sdist_holds_what_belongs_to_the_project_and_nothing_else(installation: Installation) -> None:
    with tarfile.open(installation.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    assert {*names} - {*kept} == {"PKG-INFO"}
    assert {name for name in kept if name.startswith((*OURS, "ebbtide", "tests", "docs"))} <= names


def test_no_text_names_a_module_of_ours() -> None:
    """Only import statements are moved: a name in a string would be looked up where the user's packages are."""
    named = {
        text
        for package in OURS
        for file in (ROOT / package).rglob("*.py")
        if re.search(r"['\"].*\b(?:agent|store|tools|tui)\.", source := file.read_text("utf-8"))
        for text in _texts(ast.parse(source))
        for name in re.findall(r"\b(?:agent|store|tools|tui)(?:\.\w+)+", text)
        if (ROOT / name.replace(".", "/")).is_dir() or (ROOT / f"{name.replace('.', '/')}.py").is_file()
    }
    assert named - {option.key for option in OPTIONS} == set()


def _texts(module: ast.Module) -> Iterator[str]:
    """The texts in a module, but for those that explain it."""
    for node in ast.walk(module):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
                yield child.value


def test_imports_of_ours_are_moved_and_the_lines_stay_where_they_are() -> None:
    assert moved("import os\nfrom agent.x import (\n    y,\n)\nif y:\n    from tools import z\n") == (
        "import os\nfrom ebbtide._app.agent.x import (\n    y,\n)\nif y:\n    from ebbtide._app.tools import z\n"
    )
    assert moved("from agents import x\ntext = 'from agent import x'\n") == (
        "from agents import x\ntext = 'from agent import x'\n"
    )
    with pytest.raises(ValueError, match=r"a\.py:1: write `from PACKAGE import NAME`"):
        moved("import agent.session\n", "a.py")
