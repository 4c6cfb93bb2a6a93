"""Every screen of the terminal, each full of one text, and the app that shows them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from textual.screen import Screen

from ebbtide.agent.archive.listing import ArchiveItem
from ebbtide.agent.archive.tree import Branch, MessagePreview, SessionTree
from ebbtide.agent.compaction.undo import UndoPreview
from ebbtide.agent.config.hook_tables import HookEntry
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.control_calls import TodoItem
from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked, RuleTrial
from ebbtide.agent.events.plan import PlanSubmitted
from ebbtide.agent.events.view import ReceiptItem, RewriteUndone
from ebbtide.agent.hooks.declarations import DeclaredHook
from ebbtide.agent.hooks.runner import HookStatistics
from ebbtide.agent.integrations.mcp.status import ServerStatus
from ebbtide.agent.messages import Assistant, Conversation, Reasoning, Text, ToolCall, User
from ebbtide.agent.providers.choices import ModelChoice
from ebbtide.agent.providers.first_run import DetectedKey, LocalModelServer
from ebbtide.agent.records.file_change import FileChange
from ebbtide.agent.view.items import ViewItem
from ebbtide.agent.view.provenance import Occurrence
from ebbtide.agent.window.overview import Overview
from ebbtide.tui.app import EbbApp
from ebbtide.tui.commands.first_run import build_first_run_panel
from ebbtide.tui.commands.models import build_models_panel
from ebbtide.tui.screens.compaction import CompactionScreen
from ebbtide.tui.screens.context import ContextScreen
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.slash_commands import Invocation, command_by_name
from ebbtide.tui.view.blocks import Call, OpenQuestion
from ebbtide.tui.view.plan import build_plan_panel
from ebbtide.tui.view.questions import build_question_spec
from ebbtide.tui.view.todos import build_todos_panel
from ebbtide.tui.widgets.question_panel import QuestionPanel
from tests.kit.app_pilot import Driven, ScreenType
from tests.kit.fake_sessions import (
    FakeFiles,
    FakeLibrary,
    FakeSession,
    FakeSessions,
    FakeShelf,
    conversation,
    overview,
    session_info,
)
from tests.kit.hostile_text import filled
from tests.kit.user_settings import Setup
from tests.tui.integrations.mcp.test_server_list import FakeBoard
from tests.tui.screens.test_hooks import PlayedHooks
from tests.tui.test_pictures_rewind import preview


@dataclass
class Stocked(FakeSessions):
    """Sessions of which one is full of a text."""

    text: str = ""

    async def overview(self, prefix: str, current: Conversation | None = None) -> Overview:
        items = (
            ViewItem("r1", "r1", "output", self.text, 620, 31, "visible", is_pinned=True),
            ViewItem("m0", "msg-1a2b3c4d", "you", self.text, 140, 30),
        )
        return replace(overview("abc123"), title=self.text, items=items, tools=filled(tuple_of_tools(), self.text))


def tuple_of_tools() -> object:
    return Overview.__annotations__["tools"]


def changed(text: str) -> tuple[FileChange, ...]:
    written = text.encode("utf-8", "surrogateescape" if text.isascii() else "replace")
    return (
        FileChange(text, None, b"new\n" + written),
        FileChange(f"src/{text}.py", b"a\nb\n" + written, b"a\nc\n", note=text),
        FileChange("huge", incomparable_reason=text),
        FileChange("by hand", b"one\n", written, is_by_tool=False),
    )


def tree(text: str) -> SessionTree:
    messages = (MessagePreview("abc123", 0, text, 0.0), MessagePreview("abc123", 2, f"{text} and on", 5.0))
    forked = (MessagePreview("fork1", 2, text, 9.0),)
    return SessionTree(
        (
            Branch("abc123", text, "", 0, messages, ((1, text), (3, "a.py")), 4),
            Branch("fork1", text, "abc123", 2, forked, (), 4),
        )
    )


def talked(text: str) -> Conversation:
    call = ToolCall("1", "bash", {"command": text})
    reply = Assistant(
        (Reasoning(text, {}), Text(f"# {text}\n\n- {text}\n\n```{text}\n{text}\n```"), call), "scripted/demo"
    )
    return Conversation((User((Text(text),)), reply, *conversation(3).messages))


def asked(text: str) -> PermissionAsked:
    tried = (RuleTrial(text, 7, 31, (text,)),)
    return PermissionAsked("q", "1", text, {"path": text, text: text}, text, "", (text,), tried, text)


def asked_about_diff(text: str) -> PermissionAsked:
    line = " ".join(text.splitlines())
    diff = f"--- a/{line}\n+++ b/{line}\n@@ -1,2 +1,2 @@ {line}\n one\n-{line}\n+{line} new\n"
    return PermissionAsked("q", "1", "edit", {"path": text, "new": text}, text, diff)


def stocked(text: str, folder: Path, **more: Any) -> EbbApp:
    """The app in a session in which everything is called so."""
    infos = (
        session_info("abc123", text, model=text, messages=12, cost=0.21),
        session_info("b2", text, project=text, parent="abc123", cost=None),
    )
    library = FakeLibrary(infos, {"abc123": talked(text).messages, "b2": talked(text).messages}, tree(text))
    call = ToolCall("c1", "bash", {"command": text})
    hooked = HookEntry("PreToolUse", text, text, condition=text, status=text)
    items = (
        ArchiveItem("r1", "preview", 1_000, 9, 0.0, call),
        ArchiveItem("r9", "visible", 9, 1, 0.0, preview=text, role="user"),
    )
    session = FakeSession(
        id="abc123",
        title=text,
        model=f"scripted/{text}",
        working_folder=Path("/home/me") / text,
        history=talked(text),
        places=(Occurrence("r1", "masked", text), Occurrence("r9", "visible", text)),
        archive_listing=FakeShelf(items, {"r1": text, "r9": text}),
        file_history=FakeFiles(changed(text), (text,)),
        servers=FakeBoard([filled(ServerStatus, text), filled(ServerStatus, f"{text} 2")]),
        hooks=PlayedHooks(((DeclaredHook(hooked, "user", text), HookStatistics(3, 2, 1, text)),), (text,)),
    )
    opener = Stocked([session], infos, library, names=("scripted/demo", text), text=text)
    settings: Settings = Setup(folder, environment={"EBB_MODEL": "ollama/qwen3"}).settings
    return EbbApp(opener, guard_s=0.0, settings=lambda: settings, **more)


Open = Callable[[Driven], Awaitable[object]]


def played(t: Driven) -> FakeSession:
    session = t.app.controller.session
    assert isinstance(session, FakeSession)
    return session


def does(name: str, argument: str = "") -> Open:
    async def open(t: Driven) -> None:
        t.app.jobs.invoke(Invocation(command_by_name(name), argument))

    return open


def shows(make: Callable[[str], Screen[Any]]) -> Open:
    async def open(t: Driven) -> None:
        t.app.push_screen(make(played(t).title))

    return open


async def _compacts(t: Driven) -> None:
    text = played(t).title
    made = preview()
    items = (ReceiptItem(text, "summarised", 48_200, text), *made.expected_event.receipt)
    quote = replace(made.quote, model=text)
    looked_at = replace(made, focus=text, expected_event=replace(made.expected_event, receipt=items), quote=quote)
    played(t).changes[:] = [looked_at]
    await does("compact", text)(t)


async def _undoes(t: Driven) -> None:
    played(t).changes[:] = [UndoPreview(Conversation(), 1, RewriteUndone(9_800, 84_300, 63_000, 0.2363, 180_000))]
    await does("context", "undo")(t)


@dataclass(frozen=True, slots=True)
class OpenedPanel:
    name: str
    screen: ScreenType | str
    """What is shown, or the command whose list is."""
    open: Open


def _models(text: str) -> PanelScreen:
    return PanelScreen(
        build_models_panel([ModelChoice(text), ModelChoice("ollama/qwen3", 32_768)], ModelChoice, text, 48_200)
    )


async def take_key(provider: str, key: str) -> None:
    """Is not called."""


def _first(text: str) -> PanelScreen:
    return PanelScreen(
        build_first_run_panel((DetectedKey(text, "openai"),), (LocalModelServer(text, "", (text,)),), take_key)
    )


def _todos(text: str) -> PanelScreen:
    return PanelScreen(
        build_todos_panel([TodoItem(text, "done"), TodoItem(f"{text} now", "doing"), TodoItem("run", "pending")])
    )


def asks(make: Callable[[str], OpenQuestion]) -> Open:
    async def open(t: Driven) -> None:
        t.app.main_screen.show_question(
            build_question_spec(make(played(t).title)), lambda answer: t.app.main_screen.remove_question()
        )

    return open


def _question(text: str) -> QuestionAsked:
    return QuestionAsked("q", text, (text, "blue"))


def _plan(text: str) -> PlanSubmitted:
    return PlanSubmitted("plan-1", "1", text, ("ask", "accept-edits", "auto"), is_edited=True)


SCREENS = (
    OpenedPanel("help", "help", does("help")),
    OpenedPanel("palette", "commands", does("commands")),
    OpenedPanel("context", ContextScreen, does("context")),
    OpenedPanel("archive", "archive", does("archive")),
    OpenedPanel("places", "why", does("why", "find")),
    OpenedPanel("servers", "mcp", does("mcp")),
    OpenedPanel("hooks", "hooks", does("hooks")),
    OpenedPanel("sessions", "sessions", does("sessions")),
    OpenedPanel("rewind", "rewind", does("rewind")),
    OpenedPanel("models", "model", shows(_models)),
    OpenedPanel("settings", "settings", does("settings")),
    OpenedPanel("themes", "theme", does("theme")),
    OpenedPanel("diff", "diff", does("diff")),
    OpenedPanel("files", "diff", does("files")),
    OpenedPanel("compaction", CompactionScreen, _compacts),
    OpenedPanel("confirm", QuestionPanel, _undoes),
    OpenedPanel("first run", "first-run", shows(_first)),
    OpenedPanel("todos", "todos", shows(_todos)),
    OpenedPanel("permission", PermissionAsked, asks(asked)),
    OpenedPanel("permission of a diff", PermissionAsked, asks(asked_about_diff)),
    OpenedPanel("plan", PlanSubmitted, asks(_plan)),
    OpenedPanel(
        "last plan", "plan", shows(lambda text: PanelScreen(build_plan_panel(Call("1", "submit_plan", {"plan": text}))))
    ),
    OpenedPanel("question", QuestionAsked, asks(_question)),
)


async def opened(t: Driven, opened_screen: OpenedPanel) -> Screen[Any]:
    """The screen, with all that is to be seen on it at first."""
    await t.rests()
    await opened_screen.open(t)
    try:
        await (t.lists(opened_screen.screen) if isinstance(opened_screen.screen, str) else t.asks(opened_screen.screen))
    except TimeoutError:
        raise AssertionError(
            f"{opened_screen.name} is not shown, but {t.app.screen}: {t.app.controller.view.blocks[-1:]}"
        ) from None
    await t.until(lambda: getattr(t.app.screen, "is_settled", True))
    await t.pilot.pause()
    return t.app.screen


async def closed(t: Driven) -> None:
    """Back to the main screen, by the key for that. A second one would do something there."""
    if t.app.main_screen.question is not None:
        t.prompt.set_text("")  # what was typed beside it
        t.app.main_screen.action_switch_to_question()
    await t.pilot.press("escape")
    await t.until(lambda: len(t.app.screen_stack) == 1 and t.app.main_screen.question is None)
    await t.rests()
