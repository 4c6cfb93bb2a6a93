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

from bench.context.play import MIXES, PolicySettings, SessionCosts, play
from ebbtide.agent.budget.prices import UnitPrices
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.eviction.carrying_costs import (
    CarryingCosts,
    CarryingCostTracker,
    RewriteAction,
    RewriteDecision,
    RewriteOffer,
    old_maskable_items,
)
from ebbtide.agent.eviction.settings import PATIENCE_BY_STYLE, CompactionCaps, CompactionSettings
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.view.previews import OffloadLimits


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """The input of a policy's decision before a request."""

    size: int
    budget: ContextBudget
    maskable: int
    """Tokens of the outputs that could be masked."""
    opens_turn: bool
    """Whether a user message has just started a turn."""

    @property
    def share(self) -> float:
        return self.size / self.budget.effective_window

    @property
    def free_tokens(self) -> int:
        """Unused tokens of the whole window, including reserves."""
        return self.budget.window.size - self.size


DecideAction = Callable[[PolicyInput], RewriteAction]


@dataclass(slots=True)
class PolicyCarryingCost(CarryingCostTracker):
    """Carrying costs whose decision comes from another program's policy."""

    choose: DecideAction = field(default=lambda _: "nothing")

    def decide(
        self,
        conversation: Conversation,
        budget: ContextBudget,
        prices: UnitPrices,
        how: CompactionSettings,
        *,
        is_cold: bool,
        masks_only: bool = False,
    ) -> RewriteDecision:
        items = old_maskable_items(conversation, how.caps.protected_output_tokens)
        maskable = sum(item.tokens for item in items if not item.is_reply)
        last = conversation.messages[-1]
        moment = PolicyInput(budget.used, budget, maskable, isinstance(last, User) and bool(last.text))
        return RewriteDecision(
            self.choose(moment),
            CarryingCosts(),
            0.0,
            RewriteOffer(maskable, keys=frozenset(item.key for item in items)),
        )


def compact_at_share(share: float) -> DecideAction:
    return lambda moment: "compact" if moment.share >= share else "nothing"


def compact_at_window_share(share: float, reserve: int) -> DecideAction:
    """Return a policy that compacts once the request exceeds a share of the whole window minus a reserve."""
    return lambda moment: "compact" if moment.size >= share * moment.budget.window.size - reserve else "nothing"


def compact_when_free(free_tokens: int) -> DecideAction:
    return lambda moment: "compact" if moment.free_tokens <= free_tokens else "nothing"


def mask_beyond_budget(moment: PolicyInput) -> RewriteAction:
    """Mask all outputs beyond a budget before every request."""
    return "compact" if moment.share >= 0.8 else "mask" if moment.maskable else "nothing"


def mask_above(tokens: int) -> DecideAction:
    """Return a policy that masks old outputs before each request that exceeds a size in tokens."""
    return lambda moment: "mask" if moment.size > tokens and moment.maskable else "nothing"


def mask_at_turn_start(moment: PolicyInput) -> RewriteAction:
    """Mask old outputs at the start of a turn, if they have at least 20,000 tokens."""
    if moment.free_tokens <= 36_384:
        return "compact"
    return "mask" if moment.opens_turn and moment.maskable >= 20_000 else "nothing"


FULL_OUTPUTS = OffloadLimits(max_output_bytes=10**9, max_file_bytes=10**9)
"""Outputs are shown completely unless the policy truncates them."""


_OTHER_CAPS = CompactionCaps(tail=8_000, carried_file_tokens=0, output_name_tokens=0)
"""What remains in addition to the summary under other policies: the newest 8,000 tokens of steps, and no files that
were read."""


def policy_settings(decide: DecideAction, **others: object) -> PolicySettings:
    usual = {"compacting": CompactionSettings(_OTHER_CAPS), **others}
    return PolicySettings(carrying_cost=lambda: PolicyCarryingCost(choose=decide), offloading=FULL_OUTPUTS, **usual)  # type: ignore[arg-type]  # by name


POLICIES: dict[str, PolicySettings] = {
    "ours": PolicySettings(),
    "frugal": PolicySettings(compacting=CompactionSettings(patience=PATIENCE_BY_STYLE["frugal"])),
    "careful": PolicySettings(compacting=CompactionSettings(patience=PATIENCE_BY_STYLE["careful"])),
    "learning": PolicySettings(learns=True),
    "cache kept 1×": PolicySettings(keep_alive=1),
    "cache kept 2×": PolicySettings(keep_alive=2),
    "cache kept 3×": PolicySettings(keep_alive=3),
    "never": policy_settings(lambda _: "nothing", window=10_000_000),
    "summary at 80 %": policy_settings(compact_at_share(0.8)),
    "summary at 95 %": policy_settings(compact_at_share(0.95), trigger=0.98),
    "sliding budget": policy_settings(
        mask_beyond_budget, compacting=CompactionSettings(replace(_OTHER_CAPS, protected_output_tokens=43_000))
    ),
    "like opencode": policy_settings(
        mask_at_turn_start,
        compacting=CompactionSettings(replace(_OTHER_CAPS, protected_output_tokens=40_000)),
        reader=1.0,
    ),
    "Anthropic's context editing": policy_settings(  # its defaults: above 100,000 tokens, all but three tool uses
        mask_above(100_000), compacting=CompactionSettings(replace(_OTHER_CAPS, protected_output_tokens=5_000))
    ),
    "like Claude Code": policy_settings(
        compact_when_free(33_000),
        compacting=CompactionSettings(replace(_OTHER_CAPS, tail=0, summary=12_000)),
        reattached=10_000,
        most=30_000,
    ),
    "like Codex": policy_settings(
        compact_at_window_share(0.9, 16_384),
        compacting=CompactionSettings(replace(_OTHER_CAPS, tail=0, summary=6_000)),
        reader=1.0,
        reattached=4_000,
        most=40_000,
    ),
    "like crush": policy_settings(
        compact_at_window_share(0.8, 8_192),
        compacting=CompactionSettings(replace(_OTHER_CAPS, tail=0)),
        reader=0.05,
        most=0,
    ),
}


OTHER_POLICIES = tuple(name for name, one in POLICIES.items() if one.offloading is FULL_OUTPUTS)
"""The policies of other programs, and no policy."""


def format_row(name: str, runs: list[SessionCosts], ours: float) -> str:
    def mean(field: str) -> float:
        return statistics.fmean(float(getattr(run, field)) for run in runs)

    cost = mean("cost")
    against = f"{100 * (cost / ours - 1):+.0f}%" if ours else ""
    numbers = (
        f"{cost:7.0f}{against:>7}{mean('cached'):8.1%}{mean('unpaused'):10.1%}{mean('rewrites'):9.1f}{mean('summaries'):10.1f}"
        f"{max(run.peak for run in runs):7.0%}{mean('requests'):9.0f}"
    )
    return f"{name:28}{numbers}"


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
            f"{'':28}{'cost':>7}{'':7}{'cached':>8}{'unpaused':>10}{'rewrites':>9}{'summaries':>10}{'peak':>7}{'requests':>9}"
        )
        ours = 0.0
        for name in options.only or POLICIES:
            runs = [
                asyncio.run(play(seed, options.requests, MIXES[mix], options.window, POLICIES[name]))
                for seed in range(options.seeds)
            ]
            ours = ours or statistics.fmean(run.cost for run in runs)
            print(format_row(name, runs, ours), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
