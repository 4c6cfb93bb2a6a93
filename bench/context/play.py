"""Plays planned sessions through a real session and prints their cost, in thousands of fresh input tokens.

python -m bench.context.play [--mix light|heavy|real|codex] [--requests 300] [--seeds 3] [--window 200000]"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.context.billing import common_prefix
from bench.context.model import BilledModel, BilledRequest, PlannedModel, Produce, reader_of
from bench.context.workload import CODEX, HEAVY, LIGHT, REAL, TOKENS_PER_BYTE, Mix, plan, prose
from ebbtide.agent.context.offload import Offloading
from ebbtide.agent.context.prompt import Instructions
from ebbtide.agent.context.settings import CompactionSettings
from ebbtide.agent.events.session import TurnFailed
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.messages import Usage
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.session import Session
from ebbtide.agent.window.carrying_cost import CarryingCost
from ebbtide.agent.window.keep_alive import next_renewal, renew_cache
from ebbtide.agent.window.triggers import ignore_event
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.store.blobs import Blobs
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Tool, Workspace
from tests.kit.session import assembled

SYSTEM, TOOLS = 5_000, 11_000
"""Tokens of the system text and of the tool definitions."""
MIXES: dict[str, Mix] = {"light": LIGHT, "heavy": HEAVY, "real": REAL, "codex": CODEX}
GOALS = {
    "light": (2700, 0.97, 4, 2),
    "heavy": (3350, 0.96, 9, 3),
    "real": (3700, 0.945, 5, 3),
    "codex": (3750, 0.95, 5, 3),
}
"""Target cost, cached share, rewrites and summaries."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How a session manages its context, as deviations from the default."""

    carrying_cost: Callable[[], CarryingCost] = CarryingCost
    compacting: CompactionSettings = CompactionSettings()  # noqa: RUF009  # a frozen value
    trigger: float = 0.95
    window: int | None = None
    """Window in tokens; overrides that of the run."""
    offloading: Offloading = Offloading()  # noqa: RUF009  # a frozen value
    most: int = 0
    """Bytes after which an output is truncated; 0 for never."""
    reader: float | None = None
    """Token price of the model that writes summaries, which reads the conversation uncached; None if the session's own
    model writes them from its cache."""
    reattached: int = 0
    """Tokens of files shown again after a summary."""
    keep_alive: int = 0
    """How often the cache is kept alive while the user thinks."""
    learns: bool = False
    """For recordings: whether the session learns from regrets as if they had been recalled."""


@dataclass(frozen=True, slots=True)
class SessionCosts:
    cost: float
    """Thousands of fresh input tokens, including output."""
    cached: float
    """Share of prompt tokens read from the cache, without keep-alive requests."""
    unpaused: float
    """The same for requests before the cache expired."""
    kept: int
    """Keep-alive requests."""
    requests: int
    again: int
    """Requests that fetched or read something again."""
    rewrites: int
    """Rewrites of a cached context."""
    cold: int
    """Rewrites after the cache expired, which cost nothing extra."""
    summaries: int
    peak: float
    """The largest request as a share of the window."""
    drift: int
    """Requests that did not extend the previous one although no rewrite was reported."""


USUAL = Habits()


async def play(seed: int, count: int, mix: Mix, window: int, habits: Habits = USUAL) -> SessionCosts:
    """Play one planned session to its end."""
    size, planned = habits.window or window, list(plan(seed, count, mix))
    model = PlannedModel(
        plan=planned, seed=seed, mix=mix, size=size, trigger=habits.trigger, reattached=habits.reattached
    )
    rewritten_before: set[int] = set()
    cold = 0
    with tempfile.TemporaryDirectory() as name:
        blobs = Blobs(Path(name) / "blobs")
        thread = StoreThread(lambda: SessionStore(":memory:", blobs=blobs))
        try:
            session = await open_planned(model, Path(name), thread, habits)
            while (said := model.next_message) is not None:
                begun = model.now
                await think(session, model, begun + model.plan[0].gap)
                model.now = begun
                model.wait()
                async for event in session.send(said):
                    match event:
                        case ContextCompacted(strategies=strategies, cause=cause) if strategies:
                            rewritten_before.add(len(model.billed))
                            cold += cause == "cold"
                        case TurnFailed(message=message):
                            raise SystemExit(f"the session ended early: {message}")
                        case _:
                            pass
            await session.close()
        finally:
            await thread.close()
    return session_costs(model, rewritten_before, cold)


async def think(session: Session, model: BilledModel, until: float) -> None:
    """Advance the clock to `until`, keeping the cache alive as the interface does."""
    if not session.limits.keep_alive:
        return
    renewal = await session.change(next_renewal)
    while renewal.wait is not None and model.now + renewal.wait < until:
        model.now += renewal.wait
        renewal = await session.change(renew_cache, ignore_event)


async def open_planned(model: PlannedModel, folder: Path, thread: StoreThread, habits: Habits = USUAL) -> Session:
    """Open a session with the planned model and its tools, and nothing on disk."""
    tools = [Produce(name, TOOLS // len(model.tools), model.wait, habits.most) for name in model.tools]
    return await open_session(model, tools, folder, thread, habits)


async def open_session(
    model: BilledModel, tools: Sequence[Tool], folder: Path, thread: StoreThread, habits: Habits
) -> Session:
    """Open a session with a model and tools, and nothing on disk."""
    store = await thread.open()
    row = SessionRow("aa11bb22cc33", str(folder), "", model.facts.id, "auto", 0.0, 0.0)
    return await assembled(
        model,
        Workspace(folder, folder / "outputs"),
        thread,
        store,
        row,
        instructions=Instructions(prose(1, int(SYSTEM / TOKENS_PER_BYTE))),
        tools=tools,
        offloading=habits.offloading,
        compacting=habits.compacting,
        summarisers=reader_of(model, habits.reader) if habits.reader is not None else None,
        carrying_cost=habits.carrying_cost(),
        limits=TurnLimits(keep_alive=habits.keep_alive),
        now=lambda: model.now,
    )


def session_costs(model: BilledModel, rewritten_before: set[int], cold: int) -> SessionCosts:
    """Compute the costs. `rewritten_before` contains the numbers of requests that followed a rewrite."""
    asked, timely = Usage(), Usage()
    for billed, is_late in by_lateness(model):
        asked += billed.usage
        timely += Usage() if is_late else billed.usage
    return SessionCosts(
        (sum(model.rates.cost(billed.usage) for billed in model.billed) + model.elsewhere) / 1000,
        asked.cache_read / asked.prompt,
        timely.cache_read / timely.prompt,
        sum(billed.purpose == "keep-alive" for billed in model.billed),
        len(model.billed),
        sum(billed.purpose == "again" for billed in model.billed),
        len(rewritten_before) - cold,
        cold,
        sum(billed.purpose == "summary" for billed in model.billed) + model.read_elsewhere,
        max(billed.usage.prompt for billed in model.billed) / model.size,
        _drift(model.billed, rewritten_before),
    )


def by_lateness(model: BilledModel) -> list[tuple[BilledRequest, bool]]:
    """The requests except keep-alives, each with whether the cache had expired before it."""
    found: list[tuple[BilledRequest, bool]] = []
    used = 0.0
    for billed in model.billed:
        if billed.purpose != "keep-alive":
            found.append((billed, bool(found) and billed.at - used >= model.rates.ttl))
        used = billed.at
    return found


def _drift(billed: Sequence[BilledRequest], rewritten_before: set[int]) -> int:
    """Count drift. Summary requests are skipped: the step after one is compared with the step before."""
    count = 0
    earlier: BilledRequest | None = None
    since = 0
    for number, request in enumerate(billed):
        if request.purpose == "summary":
            continue
        if earlier is not None and not rewritten_before & set(range(since + 1, number + 1)):
            count += common_prefix(earlier.blocks, request.blocks) < len(earlier.blocks)
        earlier, since = request, number
    return count


def table(name: str, runs: Sequence[SessionCosts]) -> str:
    """The means of the runs, each next to its target."""
    cost, cached, rewrites, summaries = GOALS[name]

    def mean(field: str) -> float:
        return statistics.fmean(float(getattr(run, field)) for run in runs)

    rows = (
        ("cost, thousand tokens of input", f"{mean('cost'):.0f}", f"≤ {cost}"),
        ("cached share", f"{mean('cached'):.1%}", f"≥ {100 * cached:g}%"),
        ("the same where the cache had not run out", f"{mean('unpaused'):.1%}", ""),
        ("rewrites of a cached view", f"{mean('rewrites'):.1f}", f"≤ {rewrites}"),
        ("rewrites of one that was not cached", f"{mean('cold'):.1f}", ""),
        ("summaries", f"{mean('summaries'):.1f}", f"≤ {summaries}"),
        ("largest request / window", f"{max(run.peak for run in runs):.0%}", "≤ 88%"),
        ("unlogged prefix changes", f"{sum(run.drift for run in runs)}", "0"),
        ("requests", f"{mean('requests'):.0f}", ""),
        ("of them to fetch something again", f"{mean('again'):.1f}", ""),
        *([("of them to keep the cache alive", f"{mean('kept'):.1f}", "")] if any(run.kept for run in runs) else []),
    )
    lines = [f"  {label:42}{value:>9}   {goal}".rstrip() for label, value, goal in rows]
    return "\n".join([f"{name}, {len(runs)} sessions", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.play")
    parser.add_argument("--mix", choices=sorted(MIXES), help="one of the mixes; default: all")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--window", type=int, default=200_000)
    options = parser.parse_args()
    for name in [options.mix] if options.mix else MIXES:
        runs = [asyncio.run(play(seed, options.requests, MIXES[name], options.window)) for seed in range(options.seeds)]
        print(table(name, runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
