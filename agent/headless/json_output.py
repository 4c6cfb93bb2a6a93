"""JSON on standard output: an object a line, for each event and for what a run has come to."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TextIO

from ebbtide.agent.events.session import AgentActivity
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.headless.progress import Progress
from ebbtide.agent.headless.result import RunOutcome, RunResult
from ebbtide.agent.headless.stream_events import OutputEvent, RunStarted

_OTHER_TYPES: Mapping[type[object], str] = {RunStarted: "init", RunResult: "result"}
"""Lines that are not called as their class is."""


def event_json(event: OutputEvent) -> dict[str, object]:
    """An event as the JSON object that `stream-json` prints: its type first, then its fields."""
    if isinstance(event, AgentActivity):
        return {"type": "agent_activity", **asdict(event), "event": event_json(event.event)}
    return {"type": event_type(type(event)), **asdict(event)}


def event_type(kind: type[object]) -> str:
    """The `type` under which lines of a class are printed: its name in snake case, but for a few."""
    if kind in _OTHER_TYPES:
        return _OTHER_TYPES[kind]
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def result_json(result: RunResult) -> dict[str, object]:
    """What a run ends with, as it is printed."""
    return {"type": event_type(RunResult), **asdict(result)}


class JsonOutput:
    """Prints one object when the run is over."""

    def __init__(self, out: TextIO, progress: Progress) -> None:
        self._out = out
        self._progress = progress

    def show(self, event: OutputEvent) -> None:
        self._progress.show(event)

    def end_turn(self, outcome: RunOutcome) -> None:
        """Nothing is told of it: the events of the turn were."""

    def end(self, outcome: RunOutcome) -> None:
        self._progress.close()
        print_json(self._out, result_json(outcome.as_result))


class StreamOutput:
    """Prints each event as it happens, and the result last."""

    def __init__(self, out: TextIO, progress: Progress | None = None) -> None:
        self._out = out
        self._progress = progress

    def show(self, event: OutputEvent) -> None:
        print_json(self._out, event_json(event))
        if self._progress is not None:
            self._progress.show(event)

    def end_turn(self, outcome: RunOutcome) -> None:
        """Nothing is told of it: the events of the turn were."""

    def end(self, outcome: RunOutcome) -> None:
        print_json(self._out, result_json(outcome.as_result))
