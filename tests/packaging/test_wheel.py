"""The wheel as users get it: one public name, and safe inside projects that use our words for their own packages."""

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.config.options import OPTIONS
from hatch_build import moved
from tests.running import ROOT, environment
from tests.tools.test_pdf import pdf
from tools.version import VERSION
from tui.cli.arguments import SUBCOMMANDS

OURS = ("agent", "tui", "tools", "store")
SCRIPT = """
[[reply]]
calls = [
    { name = "grep", arguments = { pattern = "w[h]at" } },
    { name = "read", arguments = { path = "a.pdf" } },
]
[[reply]]
text = "hi there"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)  # the wheel is made of what the sdist holds
    return folder / f"ebbtide-{VERSION}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class Installed:
    """The wheel in a virtual environment, and a project with packages of its own that are called as ours are here."""

    python: Path
    project: Path
    home: Path

    def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        """Where the project comes first among the places that modules are found in; without rg on the PATH."""
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.project, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            env={**environment(self.home), "PYTHONPATH": os.curdir, "PATH": "/nowhere", **variables},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place, project = tmp_path_factory.mktemp("place"), tmp_path_factory.mktemp("project")
    venv.create(place, with_pip=False)
    site = next((place / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # The dependencies come from this environment, behind the installed program's own folder.
    (site / "dependencies.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")))
    for name in OURS:
        (project / name).mkdir()
        (project / name / "__init__.py").write_text(f"OWN = 1\nopen('imported', 'a').write('{name} ')\n")
    (project / "s.toml").write_text(SCRIPT)
    (project / "a.txt").write_text("what is wanted\n")
    (project / "a.pdf").write_bytes(pdf(["one"]))
    return Installed(place / "bin" / "python", project, tmp_path_factory.mktemp("home"))


def test_the_only_public_name_is_ebbtide(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
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


def test_the_sdist_holds_what_belongs_to_the_project_and_nothing_else(wheel: Path) -> None:
    with tarfile.open(wheel.with_name(f"ebbtide-{VERSION}.tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    assert {*names} - {*kept} == {"PKG-INFO"}
    assert {name for name in kept if name.startswith((*OURS, "ebbtide", "tests", "docs"))} <= names


def test_it_runs_in_a_project_that_has_our_names_too(installed: Installed) -> None:
    run = ("-m", "ebbtide", "-p", "hi", "-m", "scripted/s.toml", "--output-format", "stream-json")
    code, out, err = installed.run(*run)
    assert (code, err) == (0, "")
    told = [json.loads(line) for line in out.splitlines()]
    # Both tools start programs of ours.
    assert [event["text"] for event in told if event["type"] == "tool_finished"] == [
        "a.txt\n1:what is wanted",
        "[page 1]\none",
    ]
    assert told[-1]["result"] == "hi there"


EXAMPLES = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)
REPLIES = (
    [{"calls": [{"name": "write", "arguments": {"path": "fixed.txt", "content": ""}}]}, {"text": "They pass."}],
    [
        {
            "calls": [
                {"name": "stock", "arguments": {"name": "pear"}},
                {"name": "stock", "arguments": {"name": "apple"}},
            ]
        },
        {"calls": [{"name": "order", "arguments": {"name": "apple", "count": 2}}]},
        {"text": "Two are ordered."},
        {"text": "Five."},
    ],
)
PRINTED = (
    "They pass. fixed.txt\n",
    "[stock: there is no pear; there are apple]\n[stock: 3]\n[order: ordered]\nTwo are ordered.\n"
    "answered {'apple': 5}\n",
)


@pytest.mark.parametrize(("example", "replies", "printed"), zip(EXAMPLES, REPLIES, PRINTED, strict=True))
def test_the_examples_run_beside_packages_with_our_names(
    installed: Installed, example: str, replies: object, printed: str
) -> None:
    (installed.project / "replies.json").write_text(json.dumps({"reply": replies}))
    watched = f"import sys\nbefore = list(sys.path)\n{example}\nassert sys.path == before\n"
    untouched = "import os\nassert not os.path.exists('imported')\n"
    kept = "import agent, tools, store, tui\nassert {agent.OWN, tools.OWN, store.OWN, tui.OWN} == {1}\n"
    assert installed.run("-c", watched + untouched + kept, EBB_MODEL="scripted/replies.json") == (0, printed, "")
    (installed.project / "imported").unlink()


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_is_found_and_none_is_the_projects_own(installed: Installed, name: str) -> None:
    code, out, err = installed.run("-m", "ebbtide", name, "--help")
    assert (code, out.partition(" [")[0], err) == (0, f"usage: ebb {name}", "")
    assert not (installed.project / "imported").exists()


def test_no_text_names_a_module_of_ours() -> None:
    """Only import statements are moved: a name in a string would be looked up where the user's packages are."""
    named = {
        text
        for package in OURS
        for file in (ROOT / package).rglob("*.py")
        for text in _texts(ast.parse(file.read_text("utf-8")))
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
