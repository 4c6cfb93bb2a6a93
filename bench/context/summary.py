"""Measures the cost of one summary of a long conversation, as a share of reading the conversation uncached.

python -m bench.context.summary [--mix light|heavy|real|codex] [--tokens 120000] [--seeds 3]"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.context.model import PlannedModel
from bench.context.play import MIXES, PolicySettings, open_planned
from bench.context.workload import plan_session
from ebbtide.agent.eviction.settings import CompactionSettings
from ebbtide.agent.messages import Usage
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.sessions import SessionStore

MAX_COST_SHARE = 0.20
WINDOW_TOKENS = 1_000_000
MAX_REQUESTS = 2_000


@dataclass(frozen=True, slots=True)
class SummaryRun:
    usage: Usage
    cost: float
    """Cost of the request in tokens of fresh input, including output."""

    @property
    def share(self) -> float:
        """The cost as a share of sending the whole conversation as fresh input."""
        return self.cost / self.usage.prompt


async def measure_summary(seed: int, mix: str, tokens: int) -> SummaryRun:
    """Play a planned session until a request has `tokens` tokens, then compact it and return the cost of the
    summary."""
    model = PlannedModel(list(plan_session(seed, MAX_REQUESTS, MIXES[mix])), seed, MIXES[mix], size=WINDOW_TOKENS)
    with tempfile.TemporaryDirectory() as name:
        thread = StoreThread(lambda: SessionStore(":memory:"))
        try:
            session = await open_planned(
                model, Path(name), thread, PolicySettings(compacting=CompactionSettings(policy="off"))
            )
            while not model.billed_requests or model.billed_requests[-1].usage.prompt < tokens:
                text = model.next_message
                assert text is not None, "the plan is too short"
                model.wait()
                async for _ in session.send(text):
                    pass
            await session.compact()
            await session.close()
        finally:
            await thread.close()
    usage = next(billed.usage for billed in reversed(model.billed_requests) if billed.purpose == "summary")
    return SummaryRun(usage, model.rates.cost(usage))


def format_table(mix: str, runs: list[SummaryRun]) -> str:
    rows = [
        f"  {run.usage.prompt:>9,}{run.usage.cache_read:>9,}{run.usage.cache_write:>9,}{run.usage.input:>7,}"
        f"{run.usage.output:>8,}{run.cost:>9,.0f}{run.share:>8.3f}"
        for run in runs
    ]
    mean = statistics.fmean(run.share for run in runs)
    head = f"  {'prompt':>9}{'read':>9}{'written':>9}{'fresh':>7}{'output':>8}{'cost':>9}{'share':>8}"
    return "\n".join([f"{mix}: one summary, {mean:.3f} of the conversation (goal ≤ {MAX_COST_SHARE:.2f})", head, *rows])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.summary")
    parser.add_argument("--mix", choices=sorted(MIXES), help="one of the mixes; default: light and heavy")
    parser.add_argument("--tokens", type=int, default=120_000, help="size of the conversation")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for mix in [options.mix] if options.mix else ["light", "heavy"]:
        print(
            format_table(
                mix, [asyncio.run(measure_summary(seed, mix, options.tokens)) for seed in range(options.seeds)]
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
