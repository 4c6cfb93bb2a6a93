"""Collects what events add to a session's records: rows for usage and rewrites, their totals, and the current turn."""

import time

from ebbtide.agent.events.session import AgentActivity, Event, ModelSwitched, ReplyFinished, TurnStarted
from ebbtide.agent.events.view import ContextCompacted, FilesChanged, PrefixRenewed, RewriteUndone, ViewChanged
from ebbtide.agent.messages import Usage
from ebbtide.agent.records.usage import SessionUsage, rewrite_row, usage_row
from ebbtide.store.session_rows import RewriteRow, UsageRow


class EventRows:
    """Collects the rows that events add, until a write has stored them."""

    def __init__(self) -> None:
        self.usage: list[UsageRow] = []
        self.rewrites: list[RewriteRow] = []
        self.total_usage = SessionUsage()
        """Total usage of the session's requests."""
        self.usage_this_run = SessionUsage()
        """Total usage of the requests sent since the program started."""
        self.turn_start: tuple[int, float] | None = None
        """When the last turn began: the session's number of messages, and the time in Unix seconds. None before the
        first turn of this run."""
        self._changed_files: FilesChanged | None = None

    def add_event(self, event: Event, position: int) -> None:
        """Queue the usage and rewrites that an event reports. `position`: the session's number of messages."""
        match event:
            case TurnStarted():
                self.turn_start, self._changed_files = (position, time.time()), None
            case FilesChanged():
                self._changed_files = event
            case ReplyFinished():
                self.usage.append(usage_row(event, time.time()))
                self._add_usage(event.usage, event.cost)
            case AgentActivity(event=ReplyFinished(usage=usage, cost=cost)):  # the agent stores its own row
                self._add_usage(usage, cost)
            case ContextCompacted() | RewriteUndone() | ViewChanged() | ModelSwitched() | PrefixRenewed():
                row = rewrite_row(event, position, time.time())
                self.rewrites += [row] if row is not None else []
            case _:
                pass

    def _add_usage(self, usage: Usage, cost: float | None) -> None:
        self.total_usage = self.total_usage.plus(usage, cost)
        self.usage_this_run = self.usage_this_run.plus(usage, cost)

    def pop_changed_files(self) -> FilesChanged | None:
        """Return the files changed by the current turn, then forget them. None if unknown."""
        changed_files, self._changed_files = self._changed_files, None
        return changed_files
