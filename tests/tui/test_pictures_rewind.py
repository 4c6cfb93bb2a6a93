"""Pictures of what goes back: a compaction looked at and taken back, sessions and their branches."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ebbtide.agent.archive.tree import Branch, MessagePreview, SessionTree, tree_rows
from ebbtide.agent.compaction.manual_compaction import CompactionPreview, DraftResult, SummaryEstimate
from ebbtide.agent.compaction.plan import compute_limits, plan_compaction
from ebbtide.agent.compaction.room import CompactionRoom, conversation_tokens
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.compaction.undo import UndoPreview
from ebbtide.agent.events.view import ContextCompacted, ReceiptItem, RewriteUndone
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Assistant, Conversation, Text, ToolCall, User
from ebbtide.tui.app import EbbApp
from ebbtide.tui.commands.sessions import build_tree_panel
from ebbtide.tui.screens.compaction import CompactionScreen
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.session.session_list import SessionList
from ebbtide.tui.slash_commands import Invocation, command_by_name
from ebbtide.tui.widgets.question_panel import QuestionPanel
from tests.kit.app_pilot import list_on
from tests.kit.fake_sessions import FakeLibrary, FakeSession, FakeSessions, conversation, measured, session_info
from tests.kit.pictures import SIZES, Picture, asks

OLDER = "older steps, replaced by a summary"
ITEMS = (
    ReceiptItem("you: make the parser accept trailing commas (61 messages)", "summarised", 48_200, OLDER),
    ReceiptItem("you: add a --json flag to the export (52 messages)", "summarised", 26_900, OLDER),
    ReceiptItem("you: the tests fail, fix them and never touch the lock file", "kept", 18, "among the newest steps"),
    ReceiptItem("step: read, bash", "kept", 2_400, "among the newest steps"),
    ReceiptItem("answer: both tests pass now", "kept", 310, "among the newest steps"),
)
EXPECTED = ContextCompacted(84_100, 9_800, 121, 6, ("summary",), "asked", ITEMS)
DRAFT = Draft(
    "[recall:r12] holds the failing test; the flag is `--json`",
    "The user wants trailing commas accepted and a `--json` flag for the export. Both are done: parser.py and "
    "export.py were changed, and 42 tests pass.\n\n- open: the changelog\n- tried and failed: a regular expression for "
    "nested lists",
)


def preview() -> CompactionPreview:
    caps = CompactionCaps(ledger=60)
    demand = User((Text("Fix the tests. Never touch the lock file, and keep Python 3.11 working."),))
    history = Conversation((demand, *conversation(40).messages))
    plan = plan_compaction(history, 500)
    assert plan is not None
    room = CompactionRoom(175_000, 2_400, 1_800)
    limits = replace(compute_limits(history, caps, room), caps=caps)
    quote = SummaryEstimate("anthropic/claude", 86_900, True, 3_000, 0.0711)
    return CompactionPreview(
        history,
        "the parser",
        EXPECTED,
        quote,
        plan,
        limits,
        room,
        lambda view: room.fixed_tokens + conversation_tokens(view),
    )


def app_with(*changes: object) -> EbbApp:
    session = FakeSession([[measured()]], changes=list(changes))
    return EbbApp(FakeSessions([session]), guard_s=0.0)


def compact(app: EbbApp) -> Callable[[], None]:
    return lambda: app.jobs.invoke(Invocation(command_by_name("compact"), "the parser"))


@SIZES
def test_what_a_compaction_would_do(picture: Picture) -> None:
    app = app_with(preview())
    assert picture(app, asks(app, CompactionScreen), start=compact(app))


@SIZES
def test_a_summary_to_be_edited(picture: Picture) -> None:
    made = preview()
    app = app_with(made, DraftResult(made.conversation, DRAFT, "anthropic/claude-haiku", 0.0312))

    def is_edited() -> bool:
        screen = app.screen
        return isinstance(screen, CompactionScreen) and screen.step == "editing" and not app.controller.view.is_busy

    assert picture(app, asks(app, CompactionScreen), "enter", is_edited, start=compact(app))


@SIZES
def test_an_undo_with_its_price(picture: Picture) -> None:
    app = app_with(UndoPreview(Conversation(), 1, RewriteUndone(9_800, 84_300, 63_000, 0.2363, 180_000)))
    undo = Invocation(command_by_name("context"), "undo")
    assert picture(app, asks(app, QuestionPanel), start=lambda: app.jobs.invoke(undo))


AGENTS = tuple(
    session_info(f"c{at}", f"find every place where the export is called, part {at}", model="openai/gpt-mini",
                 updated_at=5_900.0 - at, messages=9, cost=0.02, owner="b2", agent="explore")
    for at in range(6)
)  # fmt: skip
SESSIONS = (
    session_info("a1", "the tests fail, fix them", model="anthropic/claude-sonnet", updated_at=9_940.0, messages=12,
                 cost=0.21, tags=("ci", "release/2.1")),
    session_info("b2", "add a --json flag to the export command", model="openai/gpt", updated_at=6_000.0, messages=48,
                 cost=1.43, agents=AGENTS),
    session_info("b3",
                 "add a --json flag to the export command (fork)",
                 model="openai/gpt",
                 updated_at=5_000.0,
                 messages=31,
                 cost=0.08,
                 parent="b2"),
    session_info("c3",
                 "測試 the long name of a session that does not fit into its place, however wide it is",
                 model="ollama/qwen3",
                 updated_at=-600_000.0,
                 messages=4,
                 cost=None),
)  # fmt: skip
TALKED = (
    User((Text("add a --json flag to the export command"),)),
    Assistant((Text("I read the command first."), ToolCall("1", "read", {"path": "export.py"})), "openai/gpt"),
    Assistant((Text("The flag is there, and two tests cover it."),), "openai/gpt"),
)


@SIZES
@pytest.mark.parametrize("keys", [(), ("f", "l", "a", "g", "tab", "down", "d")], ids=["all", "found"])
def test_the_sessions(picture: Picture, keys: tuple[str, ...]) -> None:
    library = FakeLibrary(SESSIONS, {"b2": TALKED, "b3": TALKED})
    app = EbbApp(FakeSessions([FakeSession(id="b2")], listing=library), guard_s=0.0)
    screen = PanelScreen(SessionList(library, "b2", 10_000.0).build_panel())

    def listed() -> bool:
        return list_on(app, "sessions")

    steps = [step for key in keys for step in (key, listed)]
    assert picture(app, listed, *steps, start=lambda: app.push_screen(screen))


TREE = SessionTree(
    (
        Branch(
            "abc123", "", "", 0,
            (MessagePreview("abc123", 0, "make the parser accept trailing commas", 1_000.0),
             MessagePreview("abc123", 4, "now add tests for nested lists, and\nfor empty ones", 2_000.0),
             MessagePreview("abc123", 8, "write the changelog", 9_000.0)),
            ((1, "parser.py"), (5, "tests/test_parser.py"), (7, "parser.py"), (9, "CHANGELOG.md")), 12,
        ),
        Branch(
            "fork1", "", "abc123", 4,
            (MessagePreview("fork1", 4, "write the documentation first", 4_000.0),
             MessagePreview("fork1", 6, "in German, too", 5_000.0)),
            ((5_100.0, "README.md"),), 8,
        ),
    )
)  # fmt: skip


@SIZES
def test_the_tree_to_go_back_in(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession(history=conversation(2))]), guard_s=0.0)
    screen = PanelScreen(build_tree_panel(TREE, tree_rows(TREE, "abc123"), 10_000.0))
    assert picture(app, lambda: list_on(app, "rewind"), "up", start=lambda: app.push_screen(screen))
