"""All words on the screen can be read, in every theme: measured in what is drawn, cell by cell."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color
from textual.selection import SELECT_ALL
from textual.strip import Strip
from textual.widgets.text_area import Selection

from ebbtide.agent.config.options import THEMES, ThemeName
from ebbtide.agent.events.session import Event, Noticed, TurnFailed
from ebbtide.tui.text.contrast import MIN_CONTRAST, contrast_ratio
from ebbtide.tui.widgets.completions import Completions
from ebbtide.tui.widgets.question_panel import QuestionPanel
from ebbtide.tui.widgets.side_panel import SidePanel
from tests.conftest import NIGHTLY
from tests.kit.app_pilot import Driven, terminal
from tests.kit.every_screen import SCREENS, closed, opened, stocked
from tests.kit.fake_sessions import FakeSession
from tests.tui.test_pictures_side import app_in
from tests.tui.test_snapshots import QUESTION, REST, TURN

MIXED: list[ThemeName] = [name for name in THEMES if name not in ("auto", "ansi")]
USUAL = ("help", "context", "settings", "permission of a diff", "plan", "diff")
"""Screens that are measured with every change; the others every night."""
EVENTS: list[Event] = [*(event for event in TURN if event is not QUESTION), *REST]


def words_in(strip: Strip) -> Iterator[tuple[str, Style]]:
    """What is to be read; what frames, fills and divides is not."""
    for text, style, _ in strip:
        read = "".join(sign for sign in text if not 0x2500 <= ord(sign) <= 0x259F).strip()
        if read and style is not None and style.color is not None:
            yield read, style


def shown_contrast(style: Style, ground: Color) -> float:
    """As a terminal draws it: what is dim is half as far from its ground."""
    assert style.color is not None
    front = Color.from_rich_color(style.color)
    behind = Color.from_rich_color(style.bgcolor) if style.bgcolor is not None else ground
    if style.dim:
        front = behind.blend(front, 0.5)
    return contrast_ratio(front, behind)


def too_pale(t: Driven, least: float) -> dict[str, float]:
    """The words on the screen that cannot be read, but for those behind a dialog."""
    screen = t.app.screen
    ground = Color.parse(t.app.theme_variables["background"])
    dialog = next(iter(screen.query("#dialog")), screen)
    found: dict[str, float] = {}
    for strip in screen._compositor.render_strips()[dialog.region.y : dialog.region.bottom]:
        for text, style in words_in(strip.crop(dialog.region.x, dialog.region.right)):
            if (measured := shown_contrast(style, ground)) < least:
                found[f"{text} {style}"] = round(measured, 2)
    return found


async def worn(t: Driven, name: ThemeName) -> float:
    """Wears a theme, and gives the contrast that its words need."""
    t.app.theme_manager.apply_theme(name)
    await t.pilot.pause()
    await t.until(lambda: not t.app.context.presenter.schedule.is_due)
    return 7.0 if name == "high-contrast" else MIN_CONTRAST


async def measured(t: Driven) -> dict[str, dict[str, float]]:
    """What is too pale, by theme."""
    found = {name: too_pale(t, await worn(t, name)) for name in MIXED}
    return {name: pale for name, pale in found.items() if pale}


async def test_a_conversation_can_be_read_in_every_theme() -> None:
    turn = [
        *EVENTS[:-1],
        Noticed("`/undo` to revert"),
        TurnFailed("rate_limit", "the limit of `forge` is reached", 1),
    ]
    async with terminal(FakeSession([turn]), size=(120, 70), first_message="the tests fail") as t:
        await t.shows("is reached")
        await t.rests()
        assert await measured(t) == {}
        await t.press("ctrl+f", *"add", "enter")
        assert await measured(t) == {}
        await t.press("escape")
        t.transcript.focus()
        await t.press("up")
        t.app.screen.selections = {t.transcript: SELECT_ALL}
        assert await measured(t) == {}


async def test_what_stands_beside_and_above_the_prompt_can_be_read_in_every_theme(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    app = app_in(tmp_path, "dark")
    async with app.run_test(size=(160, 44)) as pilot:
        t = Driven(app, pilot)
        await t.shows("kept now")
        await t.rests()
        assert t.app.screen.query_one(SidePanel).lines
        assert await measured(t) == {}
        await t.press(*"/co", until=lambda: t.app.screen.query_one(Completions).selected_candidate is not None)
        assert await measured(t) == {}
        await t.press("ctrl+a", "escape", "escape")
        t.prompt.load_text("what was written, `code` and @src")
        t.prompt.selection = Selection((0, 2), (0, 12))
        assert await measured(t) == {}


async def test_a_question_about_a_change_can_be_read_in_every_theme() -> None:
    async with terminal(FakeSession([TURN]), size=(120, 40), first_message="the tests fail") as t:
        await t.asks(QuestionPanel)
        assert await measured(t) == {}


@pytest.mark.parametrize("theme", MIXED if NIGHTLY else ["light", "solarized-dark"])
async def test_every_screen_can_be_read(theme: ThemeName, tmp_path: Path) -> None:
    app = stocked("see `a.py`", tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        t, found = Driven(app, pilot), {}
        least = await worn(t, theme)
        for screen in SCREENS:
            if NIGHTLY or screen.name in USUAL:
                await opened(t, screen)
                found[screen.name] = too_pale(t, least)
                await closed(t)
        assert {name: pale for name, pale in found.items() if pale} == {}
