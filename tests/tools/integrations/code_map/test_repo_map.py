"""The `repo_map` tool, with its program."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.base import Result, ToolError, Workspace
from ebbtide.tools.integrations.code_map import mapper
from ebbtide.tools.integrations.code_map.grammars import GRAMMARS
from ebbtide.tools.integrations.code_map.repo_map import MAPPED_SUFFIXES, RepoMap
from ebbtide.tools.integrations.code_map.tags import NO_TAGS, Tags
from ebbtide.tools.outputs.extent import Extent
from tests.kit.files import write_files
from tests.kit.polling import soon

FILES = {
    "src/engine.py": "class Engine:\n    def start(self) -> None: ...\n",
    "src/app.py": "from src.engine import Engine\n\ndef main() -> None:\n    Engine().start()\n",
    "ignored/more.py": "class Ignored: ...\n",
    ".gitignore": "ignored/\n",
    "notes.txt": "class Words: ...\n",
    "bad.py": "class Zero: ...\n\0",
}
WHOLE = "src/engine.py:\n1\tclass Engine\n2\t  def start(self) -> None\nsrc/app.py:\n3\tdef main() -> None"


@pytest.fixture
def project(workspace: Workspace) -> Workspace:
    write_files(workspace.root, FILES)
    return workspace


async def test_the_map_shows_what_a_project_defines_without_what_git_ignores(project: Workspace) -> None:
    assert await RepoMap().run({}, project) == Result(WHOLE, extent=Extent("entries", 3, 3))
    within = await RepoMap().run({"path": "src", "focus": ["app.py"]}, project)
    assert within.text.startswith("src/app.py:\n3\tdef main() -> None")
    with pytest.raises(ToolError, match=r"^`notes.txt` is not a folder"):
        await RepoMap().run({"path": "notes.txt"}, project)


async def test_no_more_is_told_than_fits(project: Workspace) -> None:
    narrow = replace(project, estimate_tokens=lambda text: 200 * len(text.split("\n")))
    result = await RepoMap().run({"tokens": 600}, narrow)
    more = "(and 2 definitions more: name what matters in `focus`, or raise `tokens`)"
    assert result == Result(f"src/engine.py:\n1\tclass Engine\n{more}", extent=Extent("entries", 1, 3))


async def test_a_file_that_has_not_changed_is_not_read_again(project: Workspace, tmp_path: Path) -> None:
    maps = tmp_path / "data" / "maps"
    await RepoMap(maps).run({}, project)
    (cache,) = maps.iterdir()
    assert (cache.stat().st_mode & 0o777, maps.stat().st_mode & 0o777) == (0o600, 0o700)
    table = json.loads(cache.read_text())
    table["files"]["src/engine.py"][2][0][3] = "class Remembered"
    cache.write_text(json.dumps(table))
    assert "Remembered" in (await RepoMap(maps).run({}, project)).text
    engine = project.root / "src" / "engine.py"
    engine.write_text(FILES["src/engine.py"] + "\n")
    assert (await RepoMap(maps).run({}, project)).text == WHOLE
    cache.write_text('{"version": 1, "files": {"src/engine.py": [1]}}')
    assert (await RepoMap(maps).run({}, project)).text == WHOLE
    cache.unlink()
    os.mkfifo(cache)
    assert (await RepoMap(maps).run({}, project)).text == WHOLE


async def test_a_map_that_takes_too_long_is_drawn_of_what_was_read_and_the_next_one_goes_on(
    project: Workspace, tmp_path: Path
) -> None:
    tool = RepoMap(tmp_path / "maps", read_timeout_s=0)
    first = (await tool.run({"focus": ["src"]}, project)).text
    later = "(only {} of 3 files were read in 0 seconds: call again to map more files, or pass a `path`)"
    assert first == f"src/app.py:\n3\tdef main() -> None\n{later.format(1)}"
    assert (await tool.run({}, project)).text.endswith(later.format(2))
    assert (await tool.run({}, project)).text == WHOLE


async def test_it_says_how_far_it_is_and_leaves_nothing_behind_when_it_is_cancelled(project: Workspace) -> None:
    for number in range(600):
        (project.root / f"m{number}.py").write_text(f"class M{number}: ...\n")
    progress: list[str] = []
    watched = replace(project, on_progress=progress.append)
    running = asyncio.create_task(RepoMap().run({}, watched))
    await soon(lambda: bool(progress))
    running.cancel()
    await asyncio.wait([running])
    assert progress[0] == "250 of 603 files read\n"
    await soon(lambda: not _maps(project.root))


def _maps(root: Path) -> list[str]:
    """The processes that map a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if mapper.__name__.encode() in words and os.fsencode(root) in words:
            found.append(entry.parent.name)
    return found


def _crash_at_some(path: str) -> Tags:
    if path in ("3", "33", "39"):
        os._exit(1)
    return Tags((), {path: 1})


def test_a_file_at_which_the_process_crashes_costs_no_other_its_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapper, "_MAX_SERIAL_FILES", 10)
    monkeypatch.setattr(mapper, "file_tags", _crash_at_some)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    names = [str(number) for number in range(40)]
    crashed = [name for name, tags in zip(names, mapper._read_tags(names), strict=True) if tags == NO_TAGS]
    assert crashed == ["3", "33", "39"]


async def test_where_there_is_no_code_that_is_said(workspace: Workspace) -> None:
    message = "no code that can be mapped (Python, JavaScript, TypeScript, Go, Rust, Java)"
    assert await RepoMap().run({}, workspace) == Result(message)


def test_what_is_offered_knows_what_is_mapped() -> None:
    assert set(MAPPED_SUFFIXES) == set(GRAMMARS)
