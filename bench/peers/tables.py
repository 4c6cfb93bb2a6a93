"""Turns measured values into a table with ratios. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OURS = "ebb"
"""The program that the others are compared with."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A value that a row measures."""

    key: str
    title: str
    unit: str
    is_compared: bool = True
    """Whether less is better, so that a ratio means something."""


@dataclass(frozen=True, slots=True)
class Table:
    """The values of a row: for each program those of each run, or why it could not be measured."""

    title: str
    metrics: Sequence[Metric]
    values: Mapping[str, Mapping[str, Sequence[float]]]
    """By program and by key of the metric."""
    failures: Mapping[str, str]
    load: float
    """Load average at the end."""


def medians(table: Table, metric: Metric) -> dict[str, float]:
    """Return each program's median, without programs that have no value."""
    runs = {program: values.get(metric.key, ()) for program, values in table.values.items()}
    return {program: statistics.median(found) for program, found in runs.items() if found}


def ratio_to_best_peer(found: Mapping[str, float], ours: str = OURS) -> tuple[float, str] | None:
    """Return our value relative to the smallest of the other programs' values, and the name of that program; None if
    there is none, or if it is as good as zero."""
    peers = {program: value for program, value in found.items() if not program.startswith(OURS)}
    if ours not in found or not peers:
        return None
    best = min(peers, key=lambda program: peers[program])
    return (found[ours] / peers[best], best) if peers[best] >= 0.01 else None


def format_table(table: Table) -> str:
    """Return a table as text: a line per metric with all medians, and our value relative to the best peer's."""
    programs = list(table.values)
    widths = [max(9, len(program)) for program in programs]
    title = f"{table.title} (load {table.load:.1f})"
    lines = [f"{title:44}" + "".join(f" {name:>{width}}" for name, width in zip(programs, widths, strict=True))]
    for metric in table.metrics:
        found = medians(table, metric)
        cells = [format_value(found.get(program)).rjust(width) for program, width in zip(programs, widths, strict=True)]
        lines.append(
            f"  {f'{metric.title}, {metric.unit}':42} {' '.join(cells)}   {_format_ratio(metric, found)}".rstrip()
        )
    lines += [f"  {program}: {reason}" for program, reason in table.failures.items()]
    return "\n".join(lines)


def format_value(value: float | None) -> str:
    """Return a number with three digits; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _format_ratio(metric: Metric, found: Mapping[str, float]) -> str:
    """Return the ratios of our program with and without other flags."""
    ratios = [ratio_to_best_peer(found, name) for name in found if name.startswith(OURS)]
    return ", ".join(f"{ratio[0]:.2f} × {ratio[1]}" for ratio in ratios if ratio is not None and metric.is_compared)
