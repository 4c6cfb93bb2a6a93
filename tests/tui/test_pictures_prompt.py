"""Pictures of what helps to write a message. Look at every one that changes."""

from pathlib import Path

from textual.events import Paste
from textual.pilot import Pilot

from agent.config.load import load_config
from agent.config.settings import Settings
from tests.tui.doubles import FakeSession, FakeSessions, conversation
from tests.tui.picturing import SIZES, Compare
from tests.tui.piloting import list_on
from tui.app import EbbApp
from tui.prompt.history import History
from tui.widgets.completions import Completions
from tui.widgets.past import Past
from tui.widgets.prompt import PromptInput


@SIZES
def test_a_command_of_the_user(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def write(pilot: Pilot[str]) -> None:
        while not pilot.app.query("#prompt:focus"):
            await pilot.pause()
        await pilot.press(*"!git status")
        await pilot.pause()

    assert snap_compare(EbbApp(FakeSessions([FakeSession()]), guard=0.0), terminal_size=size, run_before=write)


@SIZES
def test_history_search(snap_compare: Compare, size: tuple[int, int], tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    for text in (
        "make the parser faster",
        "look at the tests\nof the parser\nand fix them",
        "what is a\x1b[31m parse?",
    ):
        history.add(text)

    async def open_search(pilot: Pilot[str]) -> None:
        app = pilot.app
        while not app.query("#prompt:focus"):
            await pilot.pause()
        await pilot.press("ctrl+r")
        while not app.query(Past) or not app.query("#past-sought:focus"):
            await pilot.pause()
        await pilot.press(*"pars", "ctrl+r")
        await pilot.pause()

    app = EbbApp(FakeSessions([FakeSession()]), history_file=tmp_path / "history", guard=0.0)
    assert snap_compare(app, terminal_size=size, run_before=open_search)


@SIZES
def test_files_that_are_offered(snap_compare: Compare, size: tuple[int, int], tmp_path: Path) -> None:
    for name in ("src/parse.py", "src/parser/tokens.py", "docs/pa\x1brser 日本.md", "tests/test_parser.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    async def write(pilot: Pilot[str]) -> None:
        while not pilot.app.query("#prompt:focus"):
            await pilot.pause()
        await pilot.press(*"look at @pars")
        while not app.controller.view.used or app.is_working or len(pilot.app.query_one(Completions).candidates) < 5:
            await pilot.pause()
        await pilot.pause()

    app = EbbApp(FakeSessions([FakeSession(root=tmp_path, history=conversation(30))]), guard=0.0)
    assert snap_compare(app, terminal_size=size, run_before=write)


@SIZES
def test_a_paste_that_is_folded(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def write(pilot: Pilot[str]) -> None:
        while not pilot.app.query("#prompt:focus"):
            await pilot.pause()
        prompt = pilot.app.query_one(PromptInput)
        prompt.post_message(Paste("what is wrong here?"))
        prompt.post_message(Paste("a line\n" * 12_345))
        await pilot.pause()
        await pilot.pause()

    assert snap_compare(EbbApp(FakeSessions([FakeSession()]), guard=0.0), terminal_size=size, run_before=write)


@SIZES
def test_keys_of_vi(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def write(pilot: Pilot[str]) -> None:
        while not pilot.app.query("#prompt:focus"):
            await pilot.pause()
        await pilot.press(*"/compact the parser", "escape", "0", "2", "d")
        await pilot.pause()

    app = EbbApp(FakeSessions([FakeSession()]), guard=0.0, keys="vim")
    assert snap_compare(app, terminal_size=size, run_before=write)


@SIZES
def test_where_to_remember(snap_compare: Compare, size: tuple[int, int]) -> None:
    config = load_config(Path("/home/me/project"), {"EBB_HOME": "/home/me/ebb"}, {"agent.model": "scripted/demo"})

    async def write(pilot: Pilot[str]) -> None:
        while not pilot.app.query("#prompt:focus"):
            await pilot.pause()
        await pilot.press(*"# tests run with tox", "enter")
        while not list_on(pilot.app, "remember"):
            await pilot.pause()
        await pilot.pause()

    settings = Settings(config, lambda: config, lambda _: None, {})
    app = EbbApp(FakeSessions([FakeSession()]), guard=0.0, settings=lambda: settings)
    assert snap_compare(app, terminal_size=size, run_before=write)
