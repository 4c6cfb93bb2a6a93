"""Tracks how far each tool call of a step has got. Changes are stored when a step has several calls or one needs
approval, so after a crash the session knows which calls never began, which finished and which must be asked about
again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field

from ebbtide.agent.context.control_calls import TASK
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import CallState, PendingEdit, ToolCall, ToolOutput
from ebbtide.tools.lazy import dataclass

CALL_INTERRUPTED = (
    "interrupted: the program ended while this call was running, so it may have been done in part. "
    "Check before you do it again."
)
AGENT_INTERRUPTED = (
    "interrupted: the program ended while this agent was at work, and nothing was handed back. What it saw until then "
    "is found with `recall`; send it off again with `task` if that is still wanted."
)
NOT_APPROVED = (
    "not run: the session ended while the user was asked whether this call may run. It was never approved, and nothing "
    "of it was done; call it again if it is still wanted."
)
NOT_BEGUN = "not run: the session ended before this call began."


async def discard_states(states: Mapping[str, CallState]) -> None:
    """Default for `CallProgress.keep`: store nothing."""


@dataclass(slots=True)
class CallProgress:
    """The progress of the tool calls of the current step."""

    keep: Callable[[Mapping[str, CallState]], Awaitable[None]] = discard_states
    """Stores the state of all calls of the step. Raises `StoreFailed`."""
    _states: dict[str, CallState] = field(default_factory=dict)
    _is_recorded: bool = False
    _is_needed: bool = False
    """Whether a call must wait until its state is stored: some states of this step are stored, or the user is being
    asked."""
    _earlier: frozenset[str] = frozenset()
    """Calls that already had outputs when the session ended."""
    _changes: int = 0
    _written: int = 0
    """How many of the changes are stored."""
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def begin(self, calls: Sequence[ToolCall]) -> None:
        """Start the next step, in which no call has begun."""
        self._states, self._is_recorded = {call.id: "waiting" for call in calls}, len(calls) > 1
        self._is_needed = False
        self._earlier = frozenset()

    def resume(self, states: Mapping[str, CallState]) -> None:
        """Continue a step with the call states stored when the session ended."""
        self._states, self._is_recorded, self._is_needed = dict(states), True, True
        self._earlier = frozenset(id for id, state in states.items() if isinstance(state, ToolOutput))

    def output_of(self, call: str) -> ToolOutput | None:
        """The output of a call that must not run again, or None."""
        state = self._states.get(call) if call in self._earlier else None
        return state if isinstance(state, ToolOutput) else None

    def edited_arguments(self, call: str) -> Mapping[str, object] | None:
        """The arguments edited by the user, if the session ended at a later question about this call."""
        state = self._states.get(call)
        return state.arguments if isinstance(state, PendingEdit) else None

    async def record_question(self, call: str, changed: Mapping[str, object] | None = None) -> None:
        """Record that the user is about to be asked about a call. `changed`: its arguments as edited by the user."""
        self._is_recorded = self._is_needed = True
        await self._change(call, "asked" if changed is None else PendingEdit(changed))

    async def record_start(self, call: str) -> None:
        """Record that a call is about to run."""
        await self._change(call, "begun")

    async def record_output(self, output: ToolOutput) -> None:
        await self._change(output.call_id, output)

    async def _change(self, call: str, state: CallState) -> None:
        self._states[call] = state
        self._changes += 1
        if not self._is_recorded:
            return
        change = self._changes
        async with self._writing:
            if self._written < change:  # else another change was stored with it
                written = self._changes
                await self._write()
                self._written = written

    async def _write(self) -> None:
        """Store the states. If the database has no table for them, stop recording: a call cut off then counts as
        interrupted."""
        try:
            await self.keep(dict(self._states))
            self._is_needed = True
        except StoreFailed as error:
            if self._is_needed or error.reason != "unreadable":
                raise
            self._is_recorded = False


def may_begin(state: CallState | None) -> bool:
    """Whether a call in this state can run now."""
    return state in ("waiting", "asked") or isinstance(state, PendingEdit)


def is_to_be_asked(states: Mapping[str, CallState]) -> bool:
    """Whether the session ended while the user was being asked."""
    return any(state == "asked" or isinstance(state, PendingEdit) for state in states.values())


def output_left(call: ToolCall, states: Mapping[str, CallState]) -> ToolOutput:
    """The output for a call that has none and will be neither asked about nor run again."""
    match states.get(call.id):
        case ToolOutput() as output:
            return output
        case "asked" | PendingEdit():
            return ToolOutput(call.id, NOT_APPROVED, "denied")
        case "waiting":
            return ToolOutput(call.id, NOT_BEGUN, "cancelled")
        case "begun" | None:
            text = AGENT_INTERRUPTED if call.name == TASK else CALL_INTERRUPTED
            return ToolOutput(call.id, text, "interrupted")
