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
from bench.context.play import MIXES, Habits, open_planned
from bench.context.workload import plan
from ebbtide.agent.context.settings import CompactionSettings
from ebbtide.agent.messages import Usage
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.sessions import SessionStore

GOAL = 0.20
WINDOW = 1_000_000
MAX_REQUESTS = 2_000


@dataclass(frozen=True, slots=True)
class SummaryRun:
    usage: Usage
    cost: float
    """Cost of the request in tokens of fresh input, including output."""

    @property
    def share(self) -> float:
        """Share of the cost of the conversation as fresh input."""
        return self.cost / self.usage.prompt


async def summarise(seed: int, mix: str, tokens: int) -> SummaryRun:
    """Play a planned session until a request has `tokens` tokens, then compact manually."""
    model = PlannedModel(list(plan(seed, MAX_REQUESTS, MIXES[mix])), seed, MIXES[mix], size=WINDOW)
    with tempfile.TemporaryDirectory() as name:
        thread = StoreThread(lambda: SessionStore(":memory:"))
        try:
            session = await open_planned(model, Path(name), thread, Habits(compacting=CompactionSettings(policy="off")))
            while not model.billed or model.billed[-1].usage.prompt < tokens:
                said = model.next_message
                assert said is not None, "the plan is too short"
                model.wait()
                async for _ in session.send(said):
                    pass
            await session.compact()
            await session.close()
        finally:
            await thread.close()
    usage = next(billed.usage for billed in reversed(model.billed) if billed.purpose == "summary")
    return SummaryRun(usage, model.rates.cost(usage))


def table(mix: str, runs: list[SummaryRun]) -> str:
    rows = [
        f"  {run.usage.prompt:>9,}{run.usage.cache_read:>9,}{run.usage.cache_write:>9,}{run.usage.input:>7,}"
        f"{run.usage.output:>8,}{run.cost:>9,.0f}{run.share:>8.3f}"
        for run in runs
    ]
    mean = statistics.fmean(run.share for run in runs)
    head = f"  {'prompt':>9}{'read':>9}{'written':>9}{'fresh':>7}{'output':>8}{'cost':>9}{'share':>8}"
    return "\n".join([f"{mix}: one summary, {mean:.3f} of the conversation (goal ≤ {GOAL:.2f})", head, *rows])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.summary")
    parser.add_argument("--mix", choices=sorted(MIXES), help="one of the mixes; default: light and heavy")
    parser.add_argument("--tokens", type=int, default=120_000, help="size of the conversation")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for mix in [options.mix] if options.mix else ["light", "heavy"]:
        print(table(mix, [asyncio.run(summarise(seed, mix, options.tokens)) for seed in range(options.seeds)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
