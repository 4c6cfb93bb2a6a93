"""Facts about the end of each turn that the messages do not show: failures, interruptions and changed files."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from ebbtide.agent.events.session import TurnFailed, TurnFinished
from ebbtide.agent.events.view import FilesChanged
from ebbtide.store.session_rows import FactRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass

TURN_END = "turn end"
"""Fact kind under which turn endings are stored. Their keys are positions."""


@dataclass(frozen=True, slots=True)
class TurnEnding:
    position: int
    """Number of messages in the session when the turn ended."""
    end: str = "answered"
    failure: TurnFailed | None = None
    changed_files: FilesChanged | None = None


def ending_row(position: int, outcome: TurnFinished | TurnFailed, files_changed: FilesChanged | None) -> FactRow | None:
    """Return the row that describes how a turn ended; None if the messages already show it."""
    failure = outcome if isinstance(outcome, TurnFailed) else None
    end = "failed" if isinstance(outcome, TurnFailed) else outcome.end
    if end == "answered" and files_changed is None:
        return None
    body = {
        "end": end,
        "failure": None if failure is None else asdict(failure),
        "changed": None if files_changed is None else asdict(files_changed),
    }
    return FactRow(TURN_END, f"{position:09}", json.dumps(body))


def turn_endings(store: SessionStore, session_id: str) -> tuple[TurnEnding, ...]:
    """Return the endings of a session's turns, in order. Unreadable ones are skipped."""
    return tuple(_decode_endings(store.facts(session_id, TURN_END)))


def endings_before(facts: Iterable[FactRow], position: int) -> tuple[FactRow, ...]:
    """Return the rows of the turns that ended at or before a position."""
    return tuple(fact for fact in facts if fact.kind == TURN_END and fact.key <= f"{position:09}")


def _decode_endings(facts: Iterable[FactRow]) -> Iterable[TurnEnding]:
    for fact in facts:
        try:
            body = json.loads(fact.body)
            failure = TurnFailed(**body["failure"]) if body["failure"] else None
            changed = body["changed"]
            files = FilesChanged(**{**changed, "files": tuple(changed["files"])}) if changed else None
            yield TurnEnding(int(fact.key), str(body["end"]), failure, files)
        except (ValueError, TypeError, KeyError):
            continue
