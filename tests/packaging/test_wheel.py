"""The wheel as users get it: one public name, and safe inside projects that use our words for their own packages."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.running import ROOT, environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_only_public_name_is_ebbtide(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"ebbtide"}
    for needed in (
        "ebbtide/__init__.py",
        "ebbtide/_app/agent/input/base_text.md",
        "ebbtide/_app/agent/providers/models.json",
        "ebbtide/_app/tools/bash.md",
        "ebbtide/_app/tui/app.tcss",
        "ebbtide/_app/tui/dialogs.tcss",
        "ebbtide/_app/tui/session/demo_project/script.toml",
    ):
        assert needed in names
    assert not [name for name in names if "/tests/" in name or name.endswith(".pyc")]


def test_it_runs_in_a_project_that_has_our_names_too(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    venv.create(place, with_pip=False)
    site = next((place / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # The dependencies come from this environment, behind the installed program's own folder.
    (site / "dependencies.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")))
    project = tmp_path / "project"
    for name in ("agent", "tui", "tools", "store"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise SystemExit('the project was imported instead')\n")
    (project / "s.json").write_text('{"reply": [{"text": "hi there"}]}')
    start = (
        "import sys; from ebbtide import main; sys.argv[1:] = ['-p', 'hi', '-m', 'scripted/s.json']; sys.exit(main())"
    )
    done = subprocess.run(
        [str(place / "bin" / "python"), "-c", start],
        cwd=project, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env={**environment(tmp_path / "home"), "PYTHONPATH": os.curdir},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi there\n", "")
