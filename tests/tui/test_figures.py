"""Figures that users see in several places, on a real server that bills: the status line, the context screen, the
receipts, the printed context, and all of them in another process."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.budget.summary_cost import SUMMARY_REQUEST_TOKENS
from ebbtide.agent.compaction.view_edits import EditRequest
from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.messages import Usage
from ebbtide.agent.window.overview import Overview, total_cost
from ebbtide.tui.app import EbbApp
from ebbtide.tui.screens.context import ContextScreen
from ebbtide.tui.session.compaction import begin_compaction
from ebbtide.tui.session.view_edits import preview_undo, propose_edit, propose_undo, run_edit, run_undo
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.view.compaction_preview import compaction_headline
from ebbtide.tui.view.component_table import build_component_table
from ebbtide.tui.view.context import overview_lines
from ebbtide.tui.view.receipts import Compaction, receipt_title
from ebbtide.tui.view.status import StatusLineState, status_line
from tests.kit.app_pilot import Driven
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn
from tests.kit.plain_lines import plain

INPUT, OUTPUT, READ = 2.0, 8.0, 0.2
"""US dollars per million tokens."""
PRICES = f"{{input={INPUT}, output={OUTPUT}, cache_read={READ}, cache_write={INPUT}}}"
MODELS = ("openai-chat/one", "openai-chat/two")
LONG = "".join(f"{number} row of a long file that says something\n" for number in range(400))


@dataclass
class Bill:
    """What a server counts: four characters a token, and of what stands at the beginning as in the request before
    what its cache holds."""

    has_cache: bool
    usages: list[Usage] = field(default_factory=list)
    _before: str = ""

    def of(self, body: dict[str, Any]) -> Usage:
        text = json.dumps([body.get("tools"), body["messages"]], ensure_ascii=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, self._before, strict=False)))
        self._before = text
        read = same // 4 if self.has_cache and same >= 4096 else 0
        self.usages.append(Usage(input=len(text) // 4 - read, cache_read=read, output=20))
        return self.usages[-1]

    @property
    def cost(self) -> float:
        return sum(map(cost_of, self.usages))


def cost_of(usage: Usage) -> float:
    return (usage.input * INPUT + usage.cache_read * READ + usage.output * OUTPUT) / 1e6


def server(bill: Bill, steps: list[Turn]) -> FakeProvider:
    def answer(request: Recorded) -> Turn:
        usage = bill.of(request.body)
        if "Write down what is needed" in str(request.body["messages"][-1]["content"]):
            return Turn(text="<retain>keep</retain><summary>The files were read.</summary>", usage=usage)
        step = steps.pop(0)
        return Turn(text=step.text, calls=step.calls, usage=usage)

    return FakeProvider([answer])


class Home:
    """A project, and the program in it on that server."""

    def __init__(self, folder: Path, server: FakeProvider) -> None:
        self.project, self.server = folder / "project", server
        self.project.mkdir(exist_ok=True)
        for name in "abcd":
            (self.project / f"{name}.txt").write_text(LONG)
        self.environment = {"EBB_HOME": str(folder / "home"), "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "key"}

    def sessions(self, *, interactive: bool, model: str | None = None) -> ProjectSessions:
        flags = {"agent.context_window": 60_000} | ({"agent.model": model} if model else {})
        settings = (
            "providers.openai-chat.wire=http",
            *(f"providers.{m.replace('/', '.models.')}.prices={PRICES}" for m in MODELS),
        )
        config = load_config(self.project, self.environment, flags, settings)
        return ProjectSessions(config, self.project, self.environment, is_interactive=interactive)

    async def elsewhere(self) -> Overview:
        """What `ebb context` prints beside the program that runs."""
        sessions = self.sessions(interactive=False)
        try:
            return await sessions.overview("")
        finally:
            await sessions.close()

    @asynccontextmanager
    async def terminal(self, resume: str | None = None, model: str | None = None) -> AsyncIterator[Driven]:
        sessions = self.sessions(interactive=True, model=model)
        app = EbbApp(sessions, resume=resume, guard_s=0.0)
        try:
            async with app.run_test(size=(140, 40)) as pilot:
                driven = Driven(app, pilot)
                await driven.rests()
                yield driven
        finally:
            await sessions.close()


async def screen_of(t: Driven) -> tuple[str, list[str]]:
    """The head of the context screen, and its rows."""
    await t.press("ctrl+x", until=lambda: isinstance(t.app.screen, ContextScreen) and t.app.screen.is_mounted)
    screen = t.app.screen
    assert isinstance(screen, ContextScreen)
    await t.pilot.pause()
    head = str(screen.query_one("#what-it-is").render()).split("\n")[0]
    rows = [f"{row.name}: {row.tokens}" for row in screen._components.rows()]
    await t.press("escape", until=lambda: t.app.screen is not screen)
    return head, rows


def figure(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text)
    assert found is not None, text
    return found.groups()


async def same_everywhere(t: Driven, home: Home, bill: Bill) -> Overview:
    """Fails where a figure is another one in some place; else what all of them tell."""
    view, session = t.app.controller.view, t.app.controller.session
    assert session is not None
    here, there = await t.app.controller.sessions.overview(session.id), await home.elsewhere()
    assert (view.used_tokens, view.available_tokens) == (here.used_tokens, here.effective)
    assert here == there
    line = plain(status_line(StatusLineState(view, visible_parts=("model", "cost", "context")), 200))
    figures = figure(r"(\S+)  (\S+)  \S* ~?(\S+) of (\S+) \((\d+)%\)$", line)
    used, room = format_tokens(here.used_tokens), format_tokens(here.effective)
    share = f"{here.used_tokens / here.effective:.0%}"[:-1]
    assert figures == (here.model, format_dollars(bill.cost), used, room, share)
    head, rows = await screen_of(t)
    of_screen = figure(r"(\S+) of (\S+) usable, (\d+)%  \S+ free  window (\S+)  (\S+)$", head)
    assert of_screen == (used, room, share, format_tokens(here.window.tokens), here.model)
    assert rows == [f"{row.name}: {row.tokens}" for row in build_component_table(there).rows()]
    assert sum(row.tokens for row in build_component_table(there).rows() if row.level == 0) == here.used_tokens
    printed = "\n".join(plain(text) for text in overview_lines(there, 120))
    assert figure(r"\n  used +(\S+) +(\S+)", printed) == (used, f"{here.used_tokens / here.effective:.1%}")
    assert total_cost(there.requests) == pytest.approx(bill.cost)
    return here


READS = [Turn(calls=(Call("read", {"path": f"{name}.txt"}),)) for name in "abcd"]


@pytest.mark.parametrize("has_cache", [True, False], ids=["cached", "uncached"])
async def test_every_place_tells_the_same_through_the_life_of_a_session(tmp_path: Path, has_cache: bool) -> None:
    bill = Bill(has_cache)
    answers = [Turn(text=text) for text in ("Read.", "Yes.", "Again.", "On.", "Two.")]
    steps = [*READS, *answers[:2], READS[0], *answers[2:]]
    with server(bill, steps) as provider:
        home = Home(tmp_path, provider)
        async with home.terminal(model=MODELS[0]) as t:
            await said(t, "go", "Read.")
            assert (await same_everywhere(t, home, bill)).used_tokens == bill.usages[-1].total
            assert await told_for_nothing(t, "r2") is not has_cache
            await run_edit(t.app.controller, EditRequest("evict", "r2"))
            await same_everywhere(t, home, bill)
            await said(t, "and?", "Yes.")
            before = (await same_everywhere(t, home, bill)).used_tokens
            receipt = await compacted(t, before)
            after = (await same_everywhere(t, home, bill)).used_tokens
            assert (receipt.event.before_tokens, receipt.event.after_tokens) == (before, after)
            assert receipt_title(receipt).endswith(f" tokens · {format_dollars(cost_of(bill.usages[-1]))}")
            await said(t, "again", "Again.")
            await same_everywhere(t, home, bill)
            event, offered = await preview_undo(t.app.controller), await propose_undo(t.app.controller)
            assert offered.text.endswith(f"costs {format_dollars(event.cost)} now")
            assert event.is_cached is has_cache
            await run_undo(t.app.controller)
            assert (await same_everywhere(t, home, bill)).used_tokens == event.after_tokens
        async with home.terminal(resume="") as t:
            await t.until(lambda: t.app.controller.view.used_tokens)
            await same_everywhere(t, home, bill)
            assert await told_for_nothing(t, "r3") is not has_cache
            await said(t, "on", "On.")
            await same_everywhere(t, home, bill)
        async with home.terminal(resume="", model=MODELS[1]) as t:
            await t.until(lambda: t.app.controller.view.used_tokens)
            await same_everywhere(t, home, bill)
            await said(t, "now you", "Two.")
            await same_everywhere(t, home, bill)


async def test_the_rent_of_outputs_is_what_the_requests_have_cost_for_them(tmp_path: Path) -> None:
    """Four outputs: the first was sent again with three requests, the last with none."""
    costs = {}
    for has_cache in (True, False):
        bill = Bill(has_cache)
        (folder := tmp_path / str(has_cache)).mkdir()
        with server(bill, [*READS, Turn(text="Read.")]) as provider:
            home = Home(folder, provider)
            async with home.terminal(model=MODELS[0]) as t:
                await said(t, "go", "Read.")
                rows = {row.ref: row for row in build_component_table(await same_everywhere(t, home, bill)).rows()}
        price = READ if has_cache else INPUT
        costs[has_cache] = [rows[ref].carrying_cost for ref in ("r1", "r2", "r3", "r4")]
        again = [rows[f"r{number}"].tokens * (4 - number) * price / 1e6 for number in (1, 2, 3, 4)]
        assert costs[has_cache] == pytest.approx(again, rel=0.02)
    assert costs[True][-1] == costs[False][-1] == 0


async def compacted(t: Driven, used: int) -> Compaction:
    """The receipt of a compaction by hand, whose offer tells what a request takes."""
    by_hand = await begin_compaction(t.app.controller, "")
    assert by_hand is not None
    assert compaction_headline(by_hand.preview).startswith(f"{used:,} → about ")
    assert by_hand.preview.quote.read_tokens == used + SUMMARY_REQUEST_TOKENS
    await by_hand.draft()
    await by_hand.apply(by_hand.summary_text)
    receipt = t.app.controller.view.blocks[-1]
    assert isinstance(receipt, Compaction)
    return receipt


async def told_for_nothing(t: Driven, ref: str) -> bool:
    return "costs nothing now" in (await propose_edit(t.app.controller, EditRequest("evict", ref))).text


async def said(t: Driven, text: str, answer: str) -> None:
    await t.says(text, shows=answer)
