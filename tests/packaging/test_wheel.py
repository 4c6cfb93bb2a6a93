"""What is in the wheel and the sdist, and how the wheel is made."""

import subprocess
import sys
import tarfile
import zipfile

from tests.kit.commands import ROOT
from tests.kit.installation import Installation

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
        "ebbtide/agent/input/base_text.md",
        "ebbtide/agent/providers/models/anthropic.json",
        "ebbtide/tools/bash.md",
        "ebbtide/tui/app.tcss",
        "ebbtide/tui/dialogs.tcss",
        "ebbtide/tui/session/demo_project/script.toml",
    ):
        assert needed in names
    assert not [name for name in names if "/tests/" in name or name.endswith(".pyc")]


def test_the_sdist_holds_what_belongs_to_the_project_and_nothing_else(installation: Installation) -> None:
    with tarfile.open(installation.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )
    names = {
        name.removeprefix("ebbtide/") if name.startswith(tuple(f"ebbtide/{one}/" for one in OURS)) else name
        for name in names
    }
    linked = {f"ebbtide/{name}" for name in OURS}
    assert {*names} - {*tracked} == {"PKG-INFO"}
    assert {name for name in tracked if name.startswith((*OURS, "ebbtide", "tests", "docs"))} - linked <= names


def test_a_module_has_one_name() -> None:
    """The four folders are parts of one package: `agent` beside `ebbtide.agent` would be a second program."""
    asked = """
import importlib, os, pkgutil, sys
import ebbtide
for module in pkgutil.walk_packages(ebbtide.__path__, "ebbtide."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
files = [os.path.realpath(one.__file__) for one in list(sys.modules.values()) if getattr(one, "__file__", None)]
ours = [file for file in files if file.startswith(sys.argv[1])]
print(len(ours), len(ours) - len({*ours}), {*sys.modules} & {*sys.argv[2:]})
"""
    done = subprocess.run(
        [sys.executable, "-c", asked, f"{ROOT}/", *OURS], cwd="/", capture_output=True, text=True, check=True
    )
    count, _, rest = done.stdout.partition(" ")
    assert (int(count) > 800, rest) == (True, "0 set()\n")
