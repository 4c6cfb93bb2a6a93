"""Pictures of the context screen: the list, what an act would cost, an item that is open, in every kind of theme."""

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from ebbtide.agent.compaction.apply_edits import EditPreview
from ebbtide.agent.compaction.edit_cost import ViewEditPlan
from ebbtide.agent.config.options import ThemeName
from ebbtide.agent.messages import Conversation, Usage
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.agent.view.items import ViewItem
from ebbtide.agent.window.overview import Epoch, Overview, TokenCount, ToolShare
from ebbtide.tui.app import EbbApp
from ebbtide.tui.screens.context import ContextScreen
from ebbtide.tui.text.themes import BackgroundTone
from tests.kit.fake_sessions import FakeSession, FakeSessions, FakeShelf, overview
from tests.kit.pictures import SIZES, Picture

TEXT = "\n".join(f"{number}\tdef parse_{number}(text: str) -> Tree:" for number in range(1, 90))


def asked(count: int, start: int) -> tuple[RequestUsage, ...]:
    """Requests after a rewrite: the first writes all of it to the cache, each of the others what has come since."""
    usages = [Usage(40, 9_000, start - 9_000, 900)]
    for number in range(1, count):
        new = (1_400, 6_200, 900, 2_700, 11_500)[number % 5]
        usages.append(Usage(3_100 if number % 7 == 4 else 60, usages[-1].prompt, new, (350, 2_900, 700)[number % 3]))
    return tuple(RequestUsage("step", "anthropic/claude", usage, 0.0312, 0.0) for usage in usages)


def seen() -> Overview:
    """A session in the middle of its work."""
    made = overview("abc123")
    items = (
        ViewItem("m0", "msg-1a2b3c4d", "you", "make the parser accept trailing commas", 620, 31, is_pinned=True),
        ViewItem("m1", "msg-2a2b3c4d", "reply", "I look at the parser first. – calls read, grep", 140, 30),
        ViewItem("r12", "r12", "output", "Viewed src/parser.py – 412 lines", 8_240, 30, "visible"),
        ViewItem("r13", "r13", "output", "Searched 'comma' in src – 31 matches", 28, 30, "masked"),
        ViewItem("m5", "msg-3a2b3c4d", "reply", "calls bash", 95, 24),
        ViewItem("r14", "r14", "output", "Ran: pytest -q – exit 1 – E assert [1, 2] == [1]", 2_050, 24, "preview"),
        ViewItem("r15", "r15", "output", "Called mcp__forge__issue – 解析器 refuses commas", 3_900, 18, "summarised"),
        ViewItem("r15", "r15", "picture", "image/png of a screenshot", 1_530, 18),
        ViewItem(
            "m8", "msg-4a2b3c4d", "reply", "Now the grammar has to change in three places. – calls edit", 1_870, 9
        ),
        ViewItem("r16", "r16", "output", "Viewed src/grammar.py – 1,204 lines", 41_900, 9, "visible", is_pinned=True),
        ViewItem("m11", "msg-5a2b3c4d", "note", "[Context: 40% used]", 27, 2),
        ViewItem("m12", "msg-6a2b3c4d", "reply", "It is done: trailing commas are accepted everywhere.", 900, 0),
    )
    tools = (
        ToolShare("mcp__forge__create", 410),
        ToolShare("mcp__forge__list", 230),
        ToolShare("mcp__monitoring_eu__page", 310),
    )
    epochs = (
        Epoch(asked(30, 14_000), Rewrite("rent", ("mask",), 98_000, 41_000, 0.0, 0.0, 30)),
        Epoch(asked(9, 41_000), Rewrite("by hand", ("evict(r7)",), 72_000, 60_000, 0.0, 0.0, 39)),
        Epoch(asked(18, 60_000), Rewrite("asked", ("summary",), 112_000, 21_000, 0.0421, 0.0, 57)),
        Epoch(asked(12, 21_000)),
    )
    numbers = tuple(replace(n, tokens=61_300) if n.name == "history" else n for n in made.components)
    assert sum(item.tokens for item in items) == 61_300
    pins = (ViewItem("r3", "r3", "pin", "Viewed docs/format.md – 88 lines", 1_400, 0, is_pinned=True),)
    return replace(
        made, components=numbers, items=items, tools=tools, pins=pins, epochs=epochs, prices_again=(0.3e-6,) * 99
    )


@dataclass
class Opened(FakeSessions):
    """Sessions of which one is looked at."""

    looked_at: Overview | None = None

    async def overview(self, prefix: str, current: Conversation | None = None) -> Overview:
        return self.looked_at or seen()


@dataclass
class Pricing(FakeSession):
    """A session in which everything that is asked for has the same price."""

    async def change_conversation(self, *work: Any, **how: Any) -> Any:
        plan = ViewEditPlan("evict", "r12", "Viewed src/parser.py", Conversation(), 3, 8_212, 9_000, 10_350.0, 821.2)
        return EditPreview(Conversation(), plan, 3e-6)


def app_of(looked_at: Overview | None = None) -> EbbApp:
    session = Pricing(archive_listing=FakeShelf((), {"r12": TEXT}))
    return EbbApp(Opened([session], looked_at=looked_at), guard_s=0.0)


def shown(picture: Picture, app: EbbApp, *keys: str, **more: Any) -> bool:
    """Whether the screen is what it was, after these keys."""

    def settled() -> bool:
        return isinstance(app.screen, ContextScreen) and app.screen.is_settled

    steps = [step for key in ("ctrl+x", *keys) for step in (key, settled)]
    return picture(app, *steps, **more)


DOWN = ("down",) * 17
"""Keys to an output."""


@SIZES
def test_the_context_with_its_timeline(picture: Picture) -> None:
    assert shown(picture, app_of())


@SIZES
def test_the_price_of_an_act_before_it_is_done(picture: Picture) -> None:
    assert shown(picture, app_of(), *DOWN, "e", *["left"] * 16)


@SIZES
def test_the_price_of_bringing_back(picture: Picture) -> None:
    assert shown(picture, app_of(), "/", *"pytest", "enter", "down", "b")


@SIZES
def test_an_item_that_is_open(picture: Picture) -> None:
    assert shown(picture, app_of(), "/", *"parser.py", "enter", "down", "enter")


@SIZES
def test_a_session_in_which_nothing_was_said(picture: Picture) -> None:
    made = overview("abc123")
    empty = replace(made, components=(TokenCount("system", 2_400, "estimated"),), epochs=made.epochs[:0], servers=())
    assert shown(picture, app_of(empty))


@pytest.mark.parametrize("theme", ["light", "high-contrast", "ansi", "ansi-dark", "ansi-light"])
def test_the_context_in_other_themes(picture: Picture, theme: str) -> None:
    app = app_of()

    def wear() -> None:
        name, _, ground = theme.partition("ansi-")
        app.theme_manager.apply_theme(cast(ThemeName, name or "ansi"))
        if ground:
            app.theme_manager.set_background(cast(BackgroundTone, ground))

    assert shown(picture, app, *DOWN, start=wear, size=(100, 30))
