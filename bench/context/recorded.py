"""Replays recorded sessions of coding agents, with our policy and those of other programs, and prints the cost and what
would have been missed.

    python -m bench.context.recorded FOLDER [--part fit|check] [--window 100k,200k,1M] [--prices NAME] [--joined]
                                            [--policy NAME … | --all] [--each]

See `bench.context.recordings` for the contents of the folder and skipped recordings, and `bench.context.regrets` for
regrets. No model is used: replies are those of the recording, and summaries are replaced by a stand-in. Costs are in
thousand tokens of fresh input, including output, billed with the recorded pauses and the prices named `--prices` in
`bench.context.billing`. *Unpaused* is the cached share of requests that came before the cache expired. *With recalls*
adds for each recall one request that reads the context from the cache and retrieves up to 2,500 tokens of the output.
*Recalls* counts an output once that both measures regret. `--part` replays only one part of the recordings, which
`split.json` in the folder lists. Intervals are of 2,000 bootstrap draws of projects and of their sessions (see
`bench.context.intervals`)."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean

from bench.context.billing import RATES, Rates
from bench.context.intervals import Interval, Parts, ratio_interval
from bench.context.peers import PEERS
from bench.context.policies import NAMES, POLICIES
from bench.context.recordings import KINDS, Recording, SkippedRecording, join_recordings, read_folder
from bench.context.regrets import CAUSES, MEASURES
from bench.context.replay import PLACEHOLDER_SUMMARY, ReplayResult, replay, replay_as_peer
from bench.context.split import PARTS, BadSplitError, read_split
from bench.context.workload import TOKENS_PER_BYTE
from ebbtide.tools.outputs.extent import pluralize

DEFAULT_POLICIES = ("ours", "opencode", "Claude Code", "Codex")
SIZE_GROUPS = ((100_000, "under 100k"), (200_000, "100k to 200k"), (10**12, "over 200k"))
"""Groups of recordings by the tokens of their messages, calls and outputs."""
AGE_GROUPS = ((6, "to 5"), (11, "6-10"), (21, "11-20"), (41, "21-40"), (81, "41-80"), (10**9, "over 80"))
"""Groups of masked outputs by their age in steps."""
UNIT_FACTORS = {"k": 1_000, "m": 1_000_000}


def parse_window(text: str) -> int:
    """Parse tokens such as `200000`, `200k` or `1M`. Raises `ValueError`."""
    unit = UNIT_FACTORS.get(text[-1:].lower(), 1)
    size = int(float(text[:-1]) * unit) if unit > 1 else int(text)
    if size < 40_000:
        raise ValueError("too small")
    return size


def parse_windows(text: str) -> list[int]:
    try:
        return [parse_window(one) for one in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"`{text}` is not a list of windows; use tokens from 40k on, such as `100k,200k,1M`"
        ) from None


def mean(runs: Sequence[ReplayResult], value: Callable[[ReplayResult], float]) -> float:
    return fmean(value(run) for run in runs)


def count_regrets(run: ReplayResult, **wanted: str) -> int:
    """Return the number of regrets that have the given cause, kind or measure."""
    return sum(all(getattr(regret, name) == value for name, value in wanted.items()) for regret in run.regrets)


def regrets_per_100(runs: Sequence[ReplayResult], **wanted: str) -> float:
    """Return the number of regrets per 100 steps that have the given cause, kind or measure."""
    return 100 * sum(count_regrets(run, **wanted) for run in runs) / sum(run.steps for run in runs)


def recalls_per_100(runs: Sequence[ReplayResult]) -> float:
    """Return the number of recalls per 100 steps that a model would have needed."""
    return 100 * sum(run.recall_count for run in runs) / sum(run.steps for run in runs)


def cached_share(runs: Sequence[ReplayResult]) -> float:
    """Return the share of all prompt tokens read from the cache."""
    return sum(run.total_usage.cache_read for run in runs) / sum(run.total_usage.prompt for run in runs)


def unpaused_cached_share(runs: Sequence[ReplayResult]) -> float:
    return sum(run.unpaused_usage.cache_read for run in runs) / sum(run.unpaused_usage.prompt for run in runs)


TABLE_HEADING = (
    f"{'':28}{'cost':>7}{'':>6}{'with recalls':>14}{'':>6}{'cached':>8}{'unpaused':>10}{'rewrites':>10}{'cold':>6}"
    f"{'summaries':>11}{'peak':>6}{'drift':>7}"
)


def format_row(name: str, runs: Sequence[ReplayResult], our_runs: Sequence[ReplayResult]) -> str:
    def difference_to_ours(value: Callable[[ReplayResult], float]) -> str:
        return f"{100 * (mean(runs, value) / mean(our_runs, value) - 1):+.0f}%" if our_runs is not runs else ""

    return (
        f"{name:28}{mean(runs, _cost):7.0f}{difference_to_ours(_cost):>6}{mean(runs, _with_recalls):14.0f}"
        f"{difference_to_ours(_with_recalls):>6}{cached_share(runs):8.1%}{unpaused_cached_share(runs):10.1%}"
        f"{mean(runs, lambda one: one.costs.rewrites):10.1f}{mean(runs, lambda one: one.costs.cold):6.1f}"
        f"{mean(runs, lambda one: one.costs.summaries):11.1f}{max(run.costs.peak for run in runs):6.0%}"
        f"{sum(run.costs.drift for run in runs):7}"
    )


def format_regrets(played: dict[str, list[ReplayResult]]) -> str:
    """Return a table of recalls and regrets per 100 steps, with the regrets of each measure by cause."""
    titles = (f"{f'by {measure}: all':>18}{''.join(f'{cause:>12}' for cause in CAUSES)}" for measure in MEASURES)
    lines = [f"  {'regrets per 100 steps':26}{'recalls':>9}{''.join(titles)}"]
    for policy, runs in played.items():
        cells = "".join(
            f"{regrets_per_100(runs, measure=measure):18.2f}"
            + "".join(f"{regrets_per_100(runs, measure=measure, cause=cause):12.2f}" for cause in CAUSES)
            for measure in MEASURES
        )
        lines.append(f"  {policy:26}{recalls_per_100(runs):9.2f}{cells}")
    return "\n".join(lines)


def _cost(one: ReplayResult) -> float:
    return one.costs.cost


def _with_recalls(one: ReplayResult) -> float:
    return one.cost


def format_kinds(runs: Sequence[ReplayResult]) -> str:
    """Return a table of regrets per 100 steps by cause, measure and kind of output, and how many of the outputs
    removed for that cause were regretted."""
    lines = [f"    {'':20}{''.join(f'{kind:>16}' for kind in KINDS)}"]
    for cause, measure in product(CAUSES, MEASURES):
        cells = ""
        for kind in KINDS:
            removed = sum(run.left_outputs.get((cause, kind), 0) for run in runs)
            regretted = {
                (run.recording.name, found.id)
                for run in runs
                for found in run.regrets
                if (found.cause, found.measure, found.kind) == (cause, measure, kind)
            }
            share = f"{len(regretted)}/{removed}" if removed else ""
            cells += f"{regrets_per_100(runs, cause=cause, measure=measure, kind=kind):7.2f}{share:>9}"
        lines.append(f"    {f'{cause}, {measure}':20}{cells}")
    return "\n".join(lines)


def format_masks(runs: Sequence[ReplayResult]) -> str:
    """Return a table of masked outputs by kind and age, with the number that were regretted later."""
    found = [mask for run in runs for mask in run.masks]
    lines = [f"    {'masked at age':14}{''.join(f'{name:>12}' for _, name in AGE_GROUPS)}"]
    for name in (*KINDS, "all"):
        of_kind = [mask for mask in found if name in (mask[0], "all")]
        cells, min_age = "", 0
        for max_age, _ in AGE_GROUPS:
            regretted = [mask[2] for mask in of_kind if min_age <= mask[1] < max_age]
            cells += f"{f'{sum(regretted)}/{len(regretted)}' if regretted else '':>12}"
            min_age = max_age
        lines.append(f"    {name:14}{cells}")
    return "\n".join(lines)


def group_name(recording: Recording) -> str:
    tokens = recording.characters * TOKENS_PER_BYTE
    return f"{recording.agent}, {next(name for most, name in SIZE_GROUPS if tokens < most)}"


def recording_groups(recordings: Sequence[Recording]) -> list[tuple[str, list[str]]]:
    """Return groups of recordings with their names: by agent and size, by project, and all but those of a project."""
    by_size = {
        name: [one.name for one in recordings if group_name(one) == name] for name in map(group_name, recordings)
    }
    projects = sorted({one.project for one in recordings})
    by_project = [(project, [one.name for one in recordings if one.project == project]) for project in projects]
    others = [
        (f"without {project}", [one.name for one in recordings if one.project != project]) for project in projects
    ]
    return [*sorted(by_size.items()), *by_project, *(others if len(projects) > 1 else ())]


def format_groups(played: dict[str, list[ReplayResult]]) -> str:
    """Return a table of cost with recalls and regrets per 100 steps by each measure, by group of recordings."""
    titles = f"{'with recalls':>16}{''.join(f'{measure:>9}' for measure in MEASURES)}"
    lines = [
        f"  {'means and regrets per 100 steps':40}{''.join(f'{policy:>{len(titles)}}' for policy in played)}",
        f"  {'':40}{titles * len(played)}",
    ]
    for name, members in recording_groups([run.recording for run in next(iter(played.values()))]):
        cells = ""
        for runs in played.values():
            group = [run for run in runs if run.recording.name in members]
            cells += f"{mean(group, _with_recalls):16.1f}"
            cells += "".join(f"{regrets_per_100(group, measure=measure):9.2f}" for measure in MEASURES)
        lines.append(f"  {f'{name} ({len(members)})':40}{cells}")
    return "\n".join(lines)


def interval_of(runs: Sequence[ReplayResult], parts: Sequence[Parts]) -> Interval | None:
    """Return the interval of a figure, resampled by project. `parts`: those of each run."""
    by_project: dict[str, list[Parts]] = {}
    for run, of_run in zip(runs, parts, strict=True):
        by_project.setdefault(run.recording.project, []).append(of_run)
    return ratio_interval(by_project)


def format_intervals(played: dict[str, list[ReplayResult]]) -> str:
    """Return a table of the 95 % intervals: of the cost compared to the first policy, and of regrets per 100 steps."""
    our_runs = next(iter(played.values()))
    projects = len({run.recording.project for run in our_runs})
    titles = ("cost", "with recalls", *(f"regrets: {measure}" for measure in MEASURES))
    heading = f"95 % intervals, {pluralize(projects, 'project')}"
    lines = [f"  {heading:40}{''.join(f'{title:>20}' for title in titles)}"]
    for policy, runs in played.items():
        pairs = list(zip(runs, our_runs, strict=True))
        cells = [
            _format_interval(interval_of(runs, [(value(run), value(our_run)) for run, our_run in pairs]), is_cost=True)
            if runs is not our_runs
            else ""
            for value in (_cost, _with_recalls)
        ]
        cells += [
            _format_interval(
                interval_of(runs, [(100 * count_regrets(run, measure=measure), run.steps) for run in runs])
            )
            for measure in MEASURES
        ]
        lines.append(f"  {policy:40}{''.join(f'{cell:>20}' for cell in cells)}")
    return "\n".join(lines)


def _format_interval(interval: Interval | None, *, is_cost: bool = False) -> str:
    if interval is None:
        return "one session"
    return " to ".join(f"{100 * (end - 1):+.1f}%" if is_cost else f"{end:.2f}" for end in interval)


def format_recordings(runs: Sequence[ReplayResult]) -> str:
    """Return a table with a row for each recording."""
    heading = (
        f"    {'recording':40}{'steps':>6}{'cost':>8}{'with recalls':>14}{'cached':>8}{'unpaused':>10}{'rewrites':>10}"
        f"{'cold':>6}{'summaries':>11}{'peak':>6}{''.join(f'{measure:>9}' for measure in MEASURES)}"
    )
    rows = (
        f"    {run.recording.name:40}{run.steps:6}{run.costs.cost:8.0f}{run.cost:14.0f}{cached_share([run]):8.1%}"
        f"{unpaused_cached_share([run]):10.1%}{run.costs.rewrites:10}{run.costs.cold:6}{run.costs.summaries:11}"
        f"{run.costs.peak:6.0%}{''.join(f'{regrets_per_100([run], measure=measure):9.2f}' for measure in MEASURES)}"
        for run in runs
    )
    return "\n".join([heading, *rows])


def format_pauses(runs: Sequence[ReplayResult]) -> str:
    requests = sum(run.costs.requests for run in runs)
    paused, cost = sum(run.paused_requests for run in runs), sum(run.paused_cost for run in runs)
    return (
        f"  {paused / requests:.1%} of the requests of {runs[0].policy} came after a pause; "
        f"they cause {cost / sum(run.costs.cost for run in runs):.0%} of its cost"
    )


def recordings_summary(recordings: Sequence[Recording], skipped: Sequence[SkippedRecording]) -> str:
    """Describe the recordings in the folder and their problems."""
    steps = sum(len(one.steps) for one in recordings)
    calls = sum(len(step.calls) for one in recordings for step in one.steps)
    lines = [", ".join((pluralize(len(recordings), "recording"), pluralize(steps, "step"), pluralize(calls, "call")))]
    lines += [f"skipped {one.name}: {one.why}" for one in skipped]
    for trouble in sorted({trouble for one in recordings for trouble in one.problems}):
        having = [one for one in recordings if trouble in one.problems]
        count = sum(one.problems[trouble] for one in having)
        lines.append(f"{trouble}: {count} in {', '.join(one.name for one in having)}")
    return "\n".join([*lines, f"Each summary says: {PLACEHOLDER_SUMMARY}"])


def replay_all(recordings: Sequence[Recording], policy: str, window: int, rates: Rates) -> list[ReplayResult]:
    if policy in PEERS:
        return [replay_as_peer(recording, window, policy, rates) for recording in recordings]
    return [asyncio.run(replay(recording, window, POLICIES[policy], policy, rates)) for recording in recordings]


def report(
    recordings: Sequence[Recording], window: int, policies: Sequence[str], rates: Rates, *, is_each: bool
) -> None:
    """Replay all recordings and print the table row by row."""
    print(f"\nwindow {window:,}, means of {pluralize(len(recordings), 'session')}\n{TABLE_HEADING}")
    found: dict[str, list[ReplayResult]] = {}
    for policy in policies:
        found[policy] = runs = replay_all(recordings, policy, window, rates)
        print(format_row(policy, runs, found[policies[0]]), flush=True)
    print(format_regrets(found))
    for policy, runs in found.items():
        print(f"  {policy}: regrets per 100 steps, and outputs regretted of those that left the context for that cause")
        print("\n".join([format_kinds(runs), *([format_recordings(runs)] if is_each else [])]))
    print(format_masks(found[policies[0]]))
    print(format_pauses(found[policies[0]]))
    print(format_groups(found))
    print(format_intervals(found), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.recorded")
    parser.add_argument("folder", type=Path, help="folder with the recordings, one `.jsonl` file each")
    parser.add_argument("--part", choices=PARTS, help="only the recordings of this part of `split.json`")
    parser.add_argument("--window", type=parse_windows, default=[200_000], help="windows in tokens: `100k,200k,1M`")
    parser.add_argument("--joined", action="store_true", help="join all sessions of a project")
    parser.add_argument("--policy", choices=sorted(NAMES), action="append", help="one of the policies")
    parser.add_argument("--prices", choices=sorted(RATES), default="anthropic", help="prices of the provider")
    parser.add_argument("--all", action="store_true", help="our policy and those of all other programs")
    parser.add_argument("--each", action="store_true", help="a line for each recording")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"`{options.folder}` is not a folder")
    try:
        names = read_split(options.folder)[options.part] if options.part else None
    except BadSplitError as error:
        parser.error(str(error))
    recordings, skipped = read_folder(options.folder, names)
    if not recordings:
        why = "; ".join(f"{one.name}: {one.why}" for one in skipped) or "no file in it ends in `.jsonl`"
        parser.error(f"`{options.folder}` contains no recording that can be replayed: {why}")
    print(recordings_summary(recordings, skipped))
    for window in options.window:
        report(
            join_recordings(recordings) if options.joined else recordings,
            window,
            ("ours", *PEERS) if options.all else options.policy or DEFAULT_POLICIES,
            RATES[options.prices],
            is_each=options.each,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
