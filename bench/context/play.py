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
from bench.context.model import BilledModel, BilledRequest, PlannedModel, SizedOutputTool
from bench.context.peers import NEVER, PEERS
from bench.context.peers.driver import PeerSession, peer_tools
from bench.context.workload import CODEX, HEAVY, LIGHT, REAL, TOKENS_PER_BYTE, WorkloadMix, plan_session, prose
from ebbtide.agent.compaction.rewrite import ignore_event
from ebbtide.agent.config.options import ContextStyle
from ebbtide.agent.events.session import TurnFailed
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.eviction.carrying_costs import CarryingCostTracker
from ebbtide.agent.eviction.settings import CompactionSettings, StyleChoice
from ebbtide.agent.messages import Usage
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.request.keep_alive import plan_renewal, renew_cache
from ebbtide.agent.session import Session
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.store.blobs import BlobStore
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Tool, Workspace
from tests.kit.session import assembled

SYSTEM_TOKENS, TOOL_TOKENS = 5_000, 11_000
"""Tokens of the system text and of the tool definitions."""
UNLIMITED_WINDOW = 10_000_000
MIXES: dict[str, WorkloadMix] = {"light": LIGHT, "heavy": HEAVY, "real": REAL, "codex": CODEX}
GOALS = {
    "light": (2700, 0.97, 4, 2),
    "heavy": (3350, 0.96, 9, 3),
    "real": (3700, 0.945, 5, 3),
    "codex": (3750, 0.95, 5, 3),
}
"""Targets for cost, cached share, rewrites and summaries, by mix."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The context management of a session. Fields that are not set have the defaults of the program."""

    carrying_cost: Callable[[], CarryingCostTracker] = CarryingCostTracker
    compacting: CompactionSettings = CompactionSettings()  # noqa: RUF009  # a frozen value
    style: ContextStyle | None = None
    """None: the default for the window."""
    keep_alive: int = 0
    """Maximum number of keep-alive requests while the user thinks."""
    learns: bool = False
    """For recordings: whether the session learns from regrets as if it had recalled the outputs."""


@dataclass(frozen=True, slots=True)
class SessionCosts:
    cost: float
    """Thousands of fresh input tokens, including output."""
    cached: float
    """Share of prompt tokens read from the cache. Keep-alive requests are not counted."""
    unpaused: float
    """The same share for requests sent before the cache expired."""
    keep_alives: int
    """Number of keep-alive requests."""
    requests: int
    again: int
    """Number of requests that fetched or read something again."""
    rewrites: int
    """Number of rewrites of a cached context."""
    cold: int
    """Number of rewrites after the cache had expired. These cost nothing extra."""
    summaries: int
    peak: float
    """The largest request as a share of the window."""
    drift: int
    """Number of requests whose beginning differs from the previous request although no rewrite was reported."""


DEFAULT_SETTINGS = PolicySettings()


async def play(
    seed: int, count: int, mix: WorkloadMix, window: int, habits: PolicySettings = DEFAULT_SETTINGS
) -> SessionCosts:
    """Play one planned session to its end."""
    model = PlannedModel(plan=list(plan_session(seed, count, mix)), seed=seed, mix=mix, size=window)
    rewritten_before: set[int] = set()
    cold = 0
    with tempfile.TemporaryDirectory() as name:
        blobs = BlobStore(Path(name) / "blobs")
        thread = StoreThread(lambda: SessionStore(":memory:", blobs=blobs))
        try:
            session = await open_planned(model, Path(name), thread, habits)
            while (text := model.next_message) is not None:
                begun = model.now
                await simulate_user_pause(session, model, begun + model.plan[0].gap)
                model.now = begun
                model.wait()
                async for event in session.send(text):
                    match event:
                        case ContextCompacted(strategies=strategies, cause=cause) if strategies:
                            rewritten_before.add(len(model.billed_requests))
                            cold += cause == "cold"
                        case TurnFailed(message=message):
                            raise SystemExit(f"the session ended early: {message}")
                        case _:
                            pass
            await session.close()
        finally:
            await thread.close()
    return session_costs(model, rewritten_before, cold)


def play_as_peer(seed: int, count: int, mix: WorkloadMix, window: int, name: str) -> SessionCosts:
    """Play one planned session under the policy of a peer."""
    plan = list(plan_session(seed, count, mix))
    model = PlannedModel(plan=plan, seed=seed, mix=mix, size=peer_window(name, window))
    return run_peer(model, model.tools, name)


def peer_window(name: str, window: int) -> int:
    return UNLIMITED_WINDOW if name == NEVER else window


def run_peer(model: BilledModel, tools: Sequence[str], name: str) -> SessionCosts:
    """Play a model's session under the policy of a peer, with tools and a system prompt as large as ours."""
    session = PeerSession(model, PEERS[name], peer_tools(tools, TOOL_TOKENS), _system_text())
    session.play()
    return session_costs(model, session.rewritten_before, session.cold)


def _system_text() -> str:
    return prose(1, int(SYSTEM_TOKENS / TOKENS_PER_BYTE))


async def simulate_user_pause(session: Session, model: BilledModel, until: float) -> None:
    """Advance the clock to `until`, keeping the cache alive as the interface does."""
    if not session.limits.max_keep_alive_requests:
        return
    renewal = await session.change_conversation(plan_renewal)
    while renewal.wait_seconds is not None and model.now + renewal.wait_seconds < until:
        model.now += renewal.wait_seconds
        renewal = await session.change_conversation(renew_cache, ignore_event)


async def open_planned(
    model: PlannedModel, folder: Path, thread: StoreThread, habits: PolicySettings = DEFAULT_SETTINGS
) -> Session:
    """Open a session with the planned model and its tools, and nothing on disk."""
    tools = [SizedOutputTool(name, TOOL_TOKENS // len(model.tools), model.wait) for name in model.tools]
    return await open_session(model, tools, folder, thread, habits)


async def open_session(
    model: BilledModel, tools: Sequence[Tool], folder: Path, thread: StoreThread, habits: PolicySettings
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
        instructions=Instructions(_system_text()),
        tools=tools,
        compaction_settings=habits.compacting,
        style=StyleChoice(habits.style),
        carrying_cost_tracker=habits.carrying_cost(),
        limits=TurnLimits(max_keep_alive_requests=habits.keep_alive),
        now=lambda: model.now,
    )


def session_costs(model: BilledModel, rewritten_before: set[int], cold: int) -> SessionCosts:
    """Return the costs of a played session. `rewritten_before`: the numbers of the requests that followed a rewrite."""
    asked, timely = Usage(), Usage()
    for billed, is_late in with_cache_expiry(model):
        asked += billed.usage
        timely += Usage() if is_late else billed.usage
    return SessionCosts(
        sum(model.rates.cost(billed.usage) for billed in model.billed_requests) / 1000,
        asked.cache_read / asked.prompt,
        timely.cache_read / timely.prompt,
        sum(billed.purpose == "keep-alive" for billed in model.billed_requests),
        len(model.billed_requests),
        sum(billed.purpose == "again" for billed in model.billed_requests),
        len(rewritten_before) - cold,
        cold,
        sum(billed.purpose == "summary" for billed in model.billed_requests),
        max(billed.usage.prompt for billed in model.billed_requests) / model.size,
        _count_drift(model.billed_requests, rewritten_before),
    )


def with_cache_expiry(model: BilledModel) -> list[tuple[BilledRequest, bool]]:
    """Return the requests except keep-alives, each with whether the cache had expired before it."""
    found: list[tuple[BilledRequest, bool]] = []
    used = 0.0
    for billed in model.billed_requests:
        if billed.purpose != "keep-alive":
            found.append((billed, bool(found) and billed.sent_at - used >= model.rates.ttl))
        used = billed.sent_at
    return found


def _count_drift(billed: Sequence[BilledRequest], rewritten_before: set[int]) -> int:
    """Return the number of unreported prefix changes. Summary requests are skipped, so the step after one is compared
    with the step before it."""
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


def format_table(name: str, runs: Sequence[SessionCosts]) -> str:
    """Return a table of the means over all runs, each next to its target."""
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
        *(
            [("of them to keep the cache alive", f"{mean('keep_alives'):.1f}", "")]
            if any(run.keep_alives for run in runs)
            else []
        ),
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
        print(format_table(name, runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
