"""Plays the same planned sessions under our policies and those of other programs, and prints their cost.

    python -m bench.context.policies [--mix NAME] [--requests 300] [--seeds 3] [--window 200000] [--only NAME]

The policies of other programs are those of `bench.context.peers`, which uses nothing of our engine."""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Mapping

from bench.context.peers import PEERS
from bench.context.play import MIXES, PolicySettings, SessionCosts, play, play_as_peer

POLICIES: Mapping[str, PolicySettings] = {
    "ours": PolicySettings(),
    "frugal": PolicySettings(style="frugal"),
    "balanced": PolicySettings(style="balanced"),
    "careful": PolicySettings(style="careful"),
    "learning": PolicySettings(learns=True),
    "cache kept 1×": PolicySettings(keep_alive=1),
    "cache kept 2×": PolicySettings(keep_alive=2),
    "cache kept 3×": PolicySettings(keep_alive=3),
}
"""Our policies. `PEERS` has those of other programs."""
NAMES = (*POLICIES, *PEERS)


def play_policy(name: str, seed: int, requests: int, mix: str, window: int) -> SessionCosts:
    if name in PEERS:
        return play_as_peer(seed, requests, MIXES[mix], window, name)
    return asyncio.run(play(seed, requests, MIXES[mix], window, POLICIES[name]))


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
    parser.add_argument("--only", choices=sorted(NAMES), action="append", help="one of the policies")
    options = parser.parse_args()
    for mix in [options.mix] if options.mix else MIXES:
        print(f"{mix}, {options.seeds} sessions of {options.requests} requests, thousand tokens of input")
        print(
            f"{'':28}{'cost':>7}{'':7}{'cached':>8}{'unpaused':>10}{'rewrites':>9}{'summaries':>10}{'peak':>7}{'requests':>9}"
        )
        ours = 0.0
        for name in options.only or NAMES:
            runs = [play_policy(name, seed, options.requests, mix, options.window) for seed in range(options.seeds)]
            ours = ours or statistics.fmean(run.cost for run in runs)
            print(format_row(name, runs, ours), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
