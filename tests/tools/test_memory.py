"""The tool by which a model remembers things about a project, on real files."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ebbtide.agent.calls.permission_request import build_permission_request
from ebbtide.agent.calls.policy import Policy, decide
from ebbtide.agent.calls.rule_suggestions import suggest_rules
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.memory import MAX_ENTRIES, MAX_TOTAL_BYTES, Memory

TEXT = "Run them with `make check`."


async def says(folder: Path, action: str, name: str = "tests", text: str = TEXT) -> str:
    workspace = Workspace(folder.parent, folder.parent)
    given = {"action": action, "name": name, **({"text": text} if action in ("save", "change") else {})}
    return (await Memory(folder).run(given, workspace)).text


async def test_an_entry_is_a_file_that_a_person_can_read_change_and_take_away(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    assert await says(folder, "list") == "there are no notes on this project yet"
    assert await says(folder, "save", "Test commands") == (
        "saved as `test-commands`: later sessions of this project start with it."
    )
    assert (folder / "test-commands.md").read_text() == f"{TEXT}\n"
    assert (folder / "test-commands.md").stat().st_mode & 0o777 == 0o600
    (folder / "by-hand.md").write_text("A person wrote this.\n\nIn two paragraphs.")
    assert await says(folder, "list") == (
        "Notes on this project:\n- by-hand: A person wrote this. In two paragraphs.\n- test-commands: " + TEXT
    )
    changed = await says(folder, "change", "by-hand", "Shorter.")
    assert changed.endswith("start with it. It said before:\nA person wrote this.\n\nIn two paragraphs.")
    assert await says(folder, "forget", "by-hand") == "`by-hand` is forgotten. It said:\nShorter."
    assert sorted(path.name for path in folder.glob("*.md")) == ["test-commands.md"]


@pytest.mark.parametrize(
    ("action", "name", "text", "problem"),
    [
        ("save", "tests", TEXT, f"there is an entry `tests`: use `change`. It says:\n{TEXT}"),
        ("change", "other", TEXT, f"there is no entry `other`. Notes on this project:\n- tests: {TEXT}"),
        ("forget", "../tests", "", "`name` is up to 60 lower-case"),
        ("save", "a/b", TEXT, "`name` is up to 60 lower-case"),
        ("save", "notes", TEXT, "`notes` is the user's own entry"),
        ("save", "long", "x" * 2_001, "`text` has 2,001 characters"),
        ("save", "empty", " ", "`text` is empty"),
    ],
)
async def test_what_cannot_be_done_says_why(tmp_path: Path, action: str, name: str, text: str, problem: str) -> None:
    await says(tmp_path / "kept", "save")
    with pytest.raises(ToolError) as error:
        await says(tmp_path / "kept", action, name, text)
    assert str(error.value).startswith(problem)
    assert (tmp_path / "kept" / "tests.md").read_text() == f"{TEXT}\n"


async def test_entries_are_bounded_in_number_and_size(tmp_path: Path) -> None:
    for number in range(MAX_TOTAL_BYTES // 2_000):
        await says(tmp_path / "large", "save", f"n{number}", "x" * 2_000)
    with pytest.raises(ToolError, match="all entries together may take 16,384 bytes"):
        await says(tmp_path / "large", "save", "more", "x" * 2_000)
    for number in range(MAX_ENTRIES):
        await says(tmp_path / "many", "save", f"n{number}", "x")
    with pytest.raises(ToolError, match="there are 50 entries, and no more than 50"):
        await says(tmp_path / "many", "save", "more", "x")


async def test_a_secret_is_not_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "correct-horse-battery-9")
    await says(tmp_path / "kept", "save", text="Deploy with correct-horse-battery-9 or AKIA1234567890ABCDEF, both.")
    assert (tmp_path / "kept" / "tests.md").read_text() == "Deploy with *** or ***, both.\n"


def test_two_sessions_at_once_lose_nothing(tmp_path: Path) -> None:
    tool = Memory(tmp_path / "kept")

    def save(number: int) -> str:
        return tool._run_action({"action": "save", "name": f"n{number}", "text": f"text {number}"})  # in threads

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(40)))
    assert len(list((tmp_path / "kept").glob("*.md"))) == 40
    assert not [name for name in os.listdir(tmp_path / "kept") if name.startswith(".n")]


def test_writing_is_asked_about_and_a_rule_ends_that_while_listing_is_not(tmp_path: Path) -> None:
    folder, policy = tmp_path / "data" / "kept", Policy(str(tmp_path / "project"), "accept-edits")
    workspace, tool = Workspace(tmp_path / "project", tmp_path), Memory(folder)
    save = build_permission_request(tool, {"action": "save", "name": "tests", "text": TEXT}, workspace, policy.mode)
    assert decide(save, policy).verdict == "ask"
    assert suggest_rules(save, policy) == (f"memory({folder / 'tests.md'})", f"memory({folder})")
    assert decide(build_permission_request(tool, {"action": "list"}, workspace, policy.mode), policy).verdict == "allow"
