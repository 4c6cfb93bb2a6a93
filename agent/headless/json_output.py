"""JSON on standard output: one object per line, for each event and for the result of a run."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TextIO

from ebbtide.agent.events.session import AgentActivity
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.headless.progress import Progress
from ebbtide.agent.headless.result import RunOutcome, RunResult
from ebbtide.agent.headless.stream_events import OutputEvent, RunStarted

_TYPE_OVERRIDES: Mapping[type[object], str] = {RunStarted: "init", RunResult: "result"}
"""Types of lines whose `type` differs from the class name."""


def event_json(event: OutputEvent) -> dict[str, object]:
    """Convert an event to the JSON object that `stream-json` prints: its type, then its fields."""
    if isinstance(event, AgentActivity):
        return {"type": "agent_activity", **asdict(event), "event": event_json(event.event)}
    return {"type": event_type_name(type(event)), **asdict(event)}


def event_type_name(event_class: type[object]) -> str:
    """Return the `type` of a class in the output: its name in snake case, with a few exceptions."""
    if event_class in _TYPE_OVERRIDES:
        return _TYPE_OVERRIDES[event_class]
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event_class.__name__).lower()


def result_json(result: RunResult) -> dict[str, object]:
    """Convert the result of a run to a JSON object."""
    return {"type": event_type_name(RunResult), **asdict(result)}


class JsonOutput:
    """Prints one object at the end of the run."""

    def __init__(self, out: TextIO, progress: Progress) -> None:
        self._out = out
        self._progress = progress

    def show(self, event: OutputEvent) -> None:
        self._progress.show(event)

    def end_turn(self, outcome: RunOutcome) -> None:
        """Do nothing: the result is printed at the end of the run."""

    def end_run(self, outcome: RunOutcome) -> None:
        self._progress.close()
        print_json(self._out, result_json(outcome.result_so_far))


class JsonStreamOutput:
    """Prints each event as it happens, and the result at the end."""

    def __init__(self, out: TextIO, progress: Progress | None = None) -> None:
        self._out = out
        self._progress = progress

    def show(self, event: OutputEvent) -> None:
        print_json(self._out, event_json(event))
        if self._progress is not None:
            self._progress.show(event)

    def end_turn(self, outcome: RunOutcome) -> None:
        """Do nothing: the result is printed at the end of the run."""

    def end_run(self, outcome: RunOutcome) -> None:
        print_json(self._out, result_json(outcome.result_so_far))
