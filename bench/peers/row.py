"""What a row of the comparison is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.peers.places import Folders
from bench.peers.programs import Installed
from bench.peers.server import ScriptedServer
from bench.peers.tables import Metric

Values = Mapping[str, float]
"""Measured values by the key of their metric."""

OUTSIDE: dict[str, set[str]] = {}
"""The hosts that each program has asked for. The server refused these requests."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    metrics: Sequence[Metric]
    measure: Callable[[Folders, Installed], Values]
    """Measures a program once. Raises `MeasurementError` if that is not possible."""
    max_runs: int = 1_000
    with_variants: bool = False
    """Whether our program is also measured with other flags."""
    is_slow: bool = False
    """Whether the row is measured only when it is named."""


def note_outside(installed: Installed, server: ScriptedServer) -> None:
    """Remember which other hosts a program asked for."""
    OUTSIDE.setdefault(installed.name, set()).update(server.outside)
