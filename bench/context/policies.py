"""Plays the same planned sessions under the policies of other programs, on this engine, and prints their cost.

    python -m bench.context.policies [--mix NAME] [--requests 300] [--seeds 3] [--window 200000] [--only NAME]

The other policies are modelled on the thresholds in their sources and documentation: when they mask or summarise, what
they keep, how much of an output they show, and whether their summary reads the conversation from the cache."""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bench.context.play import MIXES, Habits, SessionCosts, play
from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.carrying_costs import CarryingCosts, RewriteAction, RewriteDecision, RewriteOffer, UnitPrices
from ebbtide.agent.context.offload import Offloading
from ebbtide.agent.context.old_outputs import old_items
from ebbtide.agent.context.settings import Caps, CompactionSettings, RewritePatience
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.window.carrying_cost import CarryingCost


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """The input of a policy's decision before a request."""

    size: int
    budget: ContextBudget
    maskable: int
    """Tokens of the outputs that could be masked."""
    opens_turn: bool
    """Whether the user has just sent a message."""

    @property
    def share(self) -> float:
        return self.size / self.budget.effective_window

    @property
    def free_tokens(self) -> int:
        """Unused tokens of the whole window, including reserves."""
        return self.budget.window.size - self.size


Decide = Callable[[PolicyInput], RewriteAction]


@dataclass(slots=True)
class PolicyCarryingCost(CarryingCost):
    """A policy in place of the carrying cost rule."""

    decide: Decide = field(default=lambda _: "nothing")

    def rule(
        self,
        conversation: Conversation,
        budget: ContextBudget,
        prices: UnitPrices,
        how: CompactionSettings,
        *,
        is_cold: bool,
        masks_only: bool = False,
    ) -> RewriteDecision:
        items = old_items(conversation, how.caps.protect)
        maskable = sum(item.tokens for item in items if not item.is_reply)
        last = conversation.messages[-1]
        moment = PolicyInput(budget.used, budget, maskable, isinstance(last, User) and bool(last.text))
        return RewriteDecision(
            self.decide(moment),
            CarryingCosts(),
            0.0,
            RewriteOffer(maskable, keys=frozenset(item.key for item in items)),
        )


def over(share: float) -> Decide:
    return lambda moment: "compact" if moment.share >= share else "nothing"


def above(share: float, reserve: int) -> Decide:
    """Compact at a share of the whole window, minus a reserve."""
    return lambda moment: "compact" if moment.size >= share * moment.budget.window.size - reserve else "nothing"


def when_left(tokens: int) -> Decide:
    return lambda moment: "compact" if moment.free_tokens <= tokens else "nothing"


def sliding(moment: PolicyInput) -> RewriteAction:
    """Mask every output beyond a budget, with every request."""
    return "compact" if moment.share >= 0.8 else "mask" if moment.maskable else "nothing"


def pruned_when_the_user_speaks(moment: PolicyInput) -> RewriteAction:
    """Mask old outputs at the start of a turn, if they have at least 20,000 tokens."""
    if moment.free_tokens <= 36_384:
        return "compact"
    return "mask" if moment.opens_turn and moment.maskable >= 20_000 else "nothing"


WHOLE = Offloading(threshold=10**9, file_bytes=10**9)
"""Outputs stay whole unless the policy truncates them."""


_THEIRS = Caps(tail=8_000, carried=0, names=0)
"""What remains besides their summaries: no files that were read, and 8,000 tokens of the newest steps."""


def habits(decide: Decide, **others: object) -> Habits:
    usual = {"compacting": CompactionSettings(_THEIRS), **others}
    return Habits(carrying_cost=lambda: PolicyCarryingCost(decide=decide), offloading=WHOLE, **usual)  # type: ignore[arg-type]  # by name


POLICIES: dict[str, Habits] = {
    "ours": Habits(),
    "careful": Habits(compacting=CompactionSettings(patience=RewritePatience().careful)),
    "learning": Habits(learns=True),
    "cache kept 1×": Habits(keep_alive=1),
    "cache kept 2×": Habits(keep_alive=2),
    "cache kept 3×": Habits(keep_alive=3),
    "never": habits(lambda _: "nothing", window=10_000_000),
    "summary at 80 %": habits(over(0.8)),
    "summary at 95 %": habits(over(0.95), trigger=0.98),
    "sliding budget": habits(sliding, compacting=CompactionSettings(replace(_THEIRS, protect=43_000))),
    "like opencode": habits(
        pruned_when_the_user_speaks, compacting=CompactionSettings(replace(_THEIRS, protect=40_000)), reader=1.0
    ),
    "like Claude Code": habits(
        when_left(33_000),
        compacting=CompactionSettings(replace(_THEIRS, tail=0, summary=12_000)),
        reattached=10_000,
        most=30_000,
    ),
    "like Codex": habits(
        above(0.9, 16_384),
        compacting=CompactionSettings(replace(_THEIRS, tail=0, summary=6_000)),
        reader=1.0,
        reattached=4_000,
        most=40_000,
    ),
    "like crush": habits(
        above(0.8, 8_192), compacting=CompactionSettings(replace(_THEIRS, tail=0)), reader=0.05, most=0
    ),
}


OTHERS = tuple(name for name, one in POLICIES.items() if one.offloading is WHOLE)
"""The policies of other programs, and no policy."""


def row(name: str, runs: list[SessionCosts], ours: float) -> str:
    def mean(field: str) -> float:
        return statistics.fmean(float(getattr(run, field)) for run in runs)

    cost = mean("cost")
    against = f"{100 * (cost / ours - 1):+.0f}%" if ours else ""
    numbers = (
        f"{cost:7.0f}{against:>7}{mean('cached'):8.1%}{mean('unpaused'):10.1%}{mean('rewrites'):9.1f}{mean('summaries'):10.1f}"
        f"{max(run.peak for run in runs):7.0%}{mean('requests'):9.0f}"
    )
    return f"{name:18}{numbers}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.policies")
    parser.add_argument("--mix", choices=sorted(MIXES), help="one of the mixes; default: all")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--window", type=int, default=200_000)
    parser.add_argument("--only", choices=sorted(POLICIES), action="append", help="one of the policies")
    options = parser.parse_args()
    for mix in [options.mix] if options.mix else MIXES:
        print(f"{mix}, {options.seeds} sessions of {options.requests} requests, thousand tokens of input")
        print(
            f"{'':18}{'cost':>7}{'':7}{'cached':>8}{'unpaused':>10}{'rewrites':>9}{'summaries':>10}{'peak':>7}{'requests':>9}"
        )
        ours = 0.0
        for name in options.only or POLICIES:
            runs = [
                asyncio.run(play(seed, options.requests, MIXES[mix], options.window, POLICIES[name]))
                for seed in range(options.seeds)
            ]
            ours = ours or statistics.fmean(run.cost for run in runs)
            print(row(name, runs, ours), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
