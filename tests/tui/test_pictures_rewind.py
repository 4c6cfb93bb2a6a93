"""Pictures of what goes back: a compaction looked at and taken back, sessions and their branches."""

from dataclasses import replace

from textual.pilot import Pilot

from agent.by_hand import Drafted, Preview, Quote
from agent.context.compact import Room, plan_compaction, solve_floor
from agent.context.settings import Caps
from agent.context.summary import Draft
from agent.events import ContextCompacted, ReceiptItem, RewriteUndone
from agent.messages import Conversation, Text, User
from agent.undoing import UndoOffer
from tests.tui.doubles import FakeSession, FakeSessions, conversation, measured
from tests.tui.picturing import SIZES, Compare, ready
from tui.app import EbbApp
from tui.commands import Invocation, named
from tui.screens.compaction import CompactionScreen
from tui.screens.confirm import ConfirmScreen

OLDER = "older than the newest steps; a model's summary stands for it"
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


def preview() -> Preview:
    caps = Caps(ledger=60)
    demand = User((Text("Fix the tests. Never touch the lock file, and keep Python 3.11 working."),))
    history = Conversation((demand, *conversation(40).messages))
    plan = plan_compaction(history, 500)
    assert plan is not None
    room = Room(175_000, 2_400, 1_800)
    floor = replace(solve_floor(history, caps, room), caps=caps)
    quote = Quote("anthropic/claude", 86_900, True, 3_000, 0.0711)
    return Preview(history, "the parser", EXPECTED, quote, plan, floor, room)


def app_with(*changes: object) -> EbbApp:
    session = FakeSession([[measured()]], changes=list(changes))
    return EbbApp(FakeSessions([session]), guard=0.0)


async def compacting(app: EbbApp, pilot: Pilot[str]) -> CompactionScreen:
    await ready(app, lambda: not app.is_working)(pilot)
    app.invoke(Invocation(named("compact"), "the parser"))
    await ready(app, lambda: isinstance(app.screen, CompactionScreen) and app.screen.is_mounted)(pilot)
    screen = app.screen
    assert isinstance(screen, CompactionScreen)
    return screen


@SIZES
def test_what_a_compaction_would_do(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = app_with(preview())

    async def look(pilot: Pilot[str]) -> None:
        await compacting(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=look)


@SIZES
def test_a_summary_to_be_edited(snap_compare: Compare, size: tuple[int, int]) -> None:
    shown = preview()
    app = app_with(shown, Drafted(shown.conversation, DRAFT, "anthropic/claude-haiku", 0.0312))

    async def edit(pilot: Pilot[str]) -> None:
        screen = await compacting(app, pilot)
        await pilot.press("enter")
        await ready(app, lambda: screen.step == "editing")(pilot)
        screen.draft.cursor_blink = False
        await ready(app, lambda: not app.talk.view.busy)(pilot)

    assert snap_compare(app, terminal_size=size, run_before=edit)


@SIZES
def test_an_undo_with_its_price(snap_compare: Compare, size: tuple[int, int]) -> None:
    event = RewriteUndone(9_800, 84_300, 63_000, 0.2363, 200_000)
    app = app_with(UndoOffer(Conversation(), 1, event))

    async def ask(pilot: Pilot[str]) -> None:
        await ready(app, lambda: not app.is_working)(pilot)
        app.invoke(Invocation(named("undo"), ""))
        await ready(app, lambda: isinstance(app.screen, ConfirmScreen) and app.screen.is_mounted)(pilot)

    assert snap_compare(app, terminal_size=size, run_before=ask)
