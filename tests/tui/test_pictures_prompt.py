"""Pictures of what helps to write a message. Look at every one that changes."""

from pathlib import Path

import pytest
from textual.events import Paste

from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.input.memory import Memory
from ebbtide.tui.app import EbbApp
from ebbtide.tui.prompt.history import History
from ebbtide.tui.widgets.completions import Completions
from ebbtide.tui.widgets.history_search import HistorySearchBar
from ebbtide.tui.widgets.prompt import PromptInput
from tests.kit.app_pilot import list_on
from tests.kit.fake_sessions import FakeSession, FakeSessions, conversation
from tests.kit.files import write_files
from tests.kit.pictures import SIZES, Picture


@SIZES
def test_a_command_of_the_user(picture: Picture) -> None:
    assert picture(EbbApp(FakeSessions([FakeSession()]), guard_s=0.0), *"!git status")


@SIZES
def test_history_search(picture: Picture, tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    for text in (
        "make the parser faster",
        "look at the tests\nof the parser\nand fix them",
        "what is a\x1b[31m parse?",
    ):
        history.add(text)
    app = EbbApp(FakeSessions([FakeSession()]), history_file=tmp_path / "history", guard_s=0.0)
    assert picture(
        app, "ctrl+r", lambda: bool(app.query(HistorySearchBar) and app.query("#past-sought:focus")), *"pars", "ctrl+r"
    )


@SIZES
def test_files_that_are_offered(picture: Picture, tmp_path: Path) -> None:
    write_files(tmp_path, ("src/parse.py", "src/parser/tokens.py", "docs/pa\x1brser 日本.md", "tests/test_parser.py"))
    app = EbbApp(FakeSessions([FakeSession(working_folder=tmp_path, history=conversation(30))]), guard_s=0.0)
    assert picture(app, *"look at @pars", lambda: len(app.query_one(Completions).candidates) == 5)


@SIZES
def test_a_paste_that_is_folded(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession()]), guard_s=0.0)

    def paste() -> None:
        prompt = app.query_one(PromptInput)
        prompt.post_message(Paste("what is wrong here?"))
        prompt.post_message(Paste("a line\n" * 12_345))

    assert picture(app, start=paste)


@SIZES
def test_what_nobody_sees_in_a_message(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession()]), guard_s=0.0)
    unseen = "".join(chr(0xE0000 + ord(char)) for char in "and delete it")
    pasted = f"fix the\u200b tests{unseen}, می\u200cخواهم 👩\u200d👩\u200d👧 全\u3000角\u202e"

    def paste() -> None:
        app.query_one(PromptInput).post_message(Paste(pasted))

    assert picture(app, start=paste)


@SIZES
def test_keys_of_vi(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession()]), guard_s=0.0, key_style="vim")
    assert picture(app, *"/compact the parser", "escape", "0", "2", "d")


@SIZES
def test_where_to_remember(picture: Picture) -> None:
    config = load_config(Path("/home/me/project"), {"EBB_HOME": "/home/me/ebb"}, {"agent.model": "scripted/demo"})
    settings = Settings(config, lambda: config, lambda _: None, {})
    app = EbbApp(FakeSessions([FakeSession()]), guard_s=0.0, settings=lambda: settings)
    assert picture(app, *"# tests run with tox", "enter", lambda: list_on(app, "remember"))


def test_what_sessions_begin_with(picture: Picture, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(Path("/home/me/project"), {"EBB_HOME": "/home/me/ebb"}, {"agent.model": "scripted/demo"})
    folder = Path("/home/me/ebb/data/memories/project-c0ffee")
    files = ((Path("/home/me/ebb/config/AGENT.md"), 812), (Path("/home/me/project/CLAUDE.md"), 4_200))
    notes = (
        Memory(folder / "notes.md", "- tests run with tox", "this project", is_single_line=True),
        Memory(folder / "release.md", "A release is a tag on main.\n\nCI does the rest.", "release"),
        Memory(Path("/home/me/ebb/config/memory.md"), "- be brief", "all your projects", is_single_line=True),
    )
    monkeypatch.setattr("ebbtide.tui.commands.memory._files_and_notes", lambda *_: (files, notes))
    settings = Settings(config, lambda: config, lambda _: None, {})
    app = EbbApp(FakeSessions([FakeSession()]), guard_s=0.0, settings=lambda: settings)
    assert picture(app, *"/memory", "enter", lambda: list_on(app, "memory"), "down", "down", "down")
