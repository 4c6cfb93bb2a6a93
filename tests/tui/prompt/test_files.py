import asyncio
import re
from pathlib import Path

import pytest

from ebbtide.tui.prompt.completion import PromptCompletion, file_completions
from ebbtide.tui.prompt.files import PathSearch, ProjectFiles, path_scores, typed_folder_entries
from ebbtide.tui.widgets.completions import Completions
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession
from tests.kit.files import write_files

PATHS = (
    "docs/parser.md", "src/parse.py", "src/old/sparse.py", "src/parser/", "src/parser/tokens.py", 
    "tests/test_parser.py", ".venv/parser.py", "p/a/r/s/e.py", "README.md",
)  # fmt: skip


def ranked(wanted: str) -> list[str]:
    letters = re.compile(".*?".join(map(re.escape, wanted)))
    both = path_scores(wanted, PATHS, letters, is_adjacent=True) + path_scores(
        wanted, PATHS, letters, is_adjacent=False
    )
    return [score[-1] for score in sorted(both)]


def test_names_come_before_folders_and_beginnings_before_what_is_inside() -> None:
    assert ranked("parse") == [
        "src/parse.py", "src/parser/", "docs/parser.md", "tests/test_parser.py", "src/old/sparse.py",
        "src/parser/tokens.py", "p/a/r/s/e.py",
    ]  # fmt: skip
    assert ranked("src/parser/t") == ["src/parser/tokens.py"]
    assert ranked("readme.md") == ["README.md"]


def test_hidden_paths_are_meant_when_a_dot_is_written() -> None:
    assert ranked(".venv") == [".venv/parser.py"]


async def found(files: ProjectFiles, written: str) -> tuple[str, ...]:
    return [paths async for paths in files.find_matches(written)][-1]


def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n")
    write_files(tmp_path, ("src/a b.py", "src/deep/inner.py", "build/made.py", ".hidden/x.py", "top.txt"))
    return tmp_path


async def test_a_project_is_found_without_what_git_ignores(tmp_path: Path) -> None:
    files = ProjectFiles(project(tmp_path))
    assert await found(files, "") == ("src/", "top.txt")
    assert await found(files, "inn") == ("src/deep/inner.py",)
    assert await found(files, "deep") == ("src/deep/", "src/deep/inner.py")
    assert await found(files, "made") == ()
    assert await found(files, "build/m") == ("build/made.py",)
    await files.close()


async def test_what_programs_make_for_themselves_is_left_out_where_no_rule_ignores_it(tmp_path: Path) -> None:
    write_files(
        tmp_path, ("src/a.py", "src/__pycache__/a.cpython-311.pyc", "node_modules/a/a.js", "__pycache__/b.pyc", "a.pyc")
    )
    files = ProjectFiles(tmp_path)
    assert await found(files, "") == ("src/",)
    assert await found(files, "a") == ("src/a.py",)
    await files.close()


async def test_what_is_near_is_in_the_list_once(tmp_path: Path) -> None:
    files = ProjectFiles(project(tmp_path))
    await found(files, "inn")
    assert sorted(files._paths) == [
        ".gitignore", ".hidden/", ".hidden/x.py", "src/", "src/a b.py", "src/deep/", "src/deep/inner.py", "top.txt",
    ]  # fmt: skip
    await files.close()


async def test_a_list_that_is_made_anew_replaces_the_old_one(tmp_path: Path) -> None:
    files = ProjectFiles(project(tmp_path))
    assert await found(files, "top") == ("top.txt",)
    (tmp_path / "top.txt").unlink()
    files._listed_at = -1e9
    assert [paths async for paths in files.find_matches("top")] == [("top.txt",), ()]
    await files.close()


def test_letters_find_the_same_however_the_paths_become_known() -> None:
    at_once, bit_by_bit = PathSearch("parse"), PathSearch("parse")
    for known in range(len(PATHS) + 1):
        while bit_by_bit.advance(PATHS[:known]):
            pass
    while at_once.advance(PATHS):
        pass
    assert at_once.matches == bit_by_bit.matches == tuple(ranked("parse"))


async def test_a_new_file_is_found_once_the_list_is_old(tmp_path: Path) -> None:
    files = ProjectFiles(project(tmp_path))
    assert await found(files, "brandnew") == ()
    (tmp_path / "brandnew.py").write_text("")
    files._listed_at = -1e9
    assert await found(files, "brandnew") == ("brandnew.py",)
    await files.close()


def test_a_folder_that_is_typed_out_is_listed(tmp_path: Path) -> None:
    root = project(tmp_path)
    assert typed_folder_entries(root, "build/") == ("build/made.py",)
    assert typed_folder_entries(root / "src", "../to") == ("../top.txt",)
    assert typed_folder_entries(root, "nothing/") == typed_folder_entries(root, "\0/") == ()


def test_what_is_taken_stands_in_the_message() -> None:
    assert file_completions("see @in", "", ("src/a b.py", "src/")) == (
        PromptCompletion('see @"src/a b.py" ', "src/a b.py", "", is_final=False),
        PromptCompletion("see @src/", "src/", "", is_final=False),
    )


async def test_an_at_sign_offers_files_and_tab_takes_one(tmp_path: Path) -> None:
    async with terminal(FakeSession(working_folder=project(tmp_path))) as t:
        offered = t.app.query_one(Completions)
        await t.press(*"explain @inn", until=lambda: offered.display)
        await t.pilot.press("tab")
        assert t.prompt.text == "explain @src/deep/inner.py "
        await t.press("home", "@", until=lambda: offered.display)
        await t.pilot.press("enter")
        assert (t.prompt.text, t.prompt.cursor_location) == ("@src/explain @src/deep/inner.py ", (0, 5))
        await t.press("escape", *"zzz", until=lambda: not offered.display)


async def test_a_search_for_files_ends_with_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    async def never_done(*_: object) -> None:
        steps.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("ended")

    monkeypatch.setattr("ebbtide.tools.search.files.list_files", never_done)
    async with terminal(FakeSession(working_folder=project(tmp_path))) as t:
        await t.press("@", "t", until=lambda: steps)
    assert steps == ["begun", "ended"]


async def test_the_arrows_move_through_what_is_offered_and_around_its_ends() -> None:
    async with terminal(FakeSession()) as t:
        offered = t.app.query_one(Completions)
        await t.press("/", until=lambda: offered.display)
        first, second, *_, last = offered.candidates
        found = [offered.selected_candidate]
        for key in ("down", "up", "up", "down", "down"):
            await t.pilot.press(key)
            found.append(offered.selected_candidate)
        assert found == [first, second, first, last, first, second]
        await t.pilot.press("tab")
        assert t.prompt.text.strip() == second.text_before.strip()
