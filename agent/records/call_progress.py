"""Tracks the progress of each tool call in a step. The states are stored if the step has several calls or if a call
needs approval. After a crash, they show which calls never began, which ones finished, and which ones need approval
again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field

from ebbtide.agent.control_calls import TASK_TOOL
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import CallState, PendingEdit, ToolCall, ToolOutput
from ebbtide.tools.lazy import dataclass

CALL_INTERRUPTED_TEXT = (
    "interrupted: the program ended while this call was running, so it may have been done in part. "
    "Check before you do it again."
)
AGENT_INTERRUPTED_TEXT = (
    "interrupted: the program ended while this agent was at work, and nothing was handed back. `recall` finds what it "
    "saw until then; start it again with `task` if that is still needed."
)
NOT_APPROVED_TEXT = (
    "not run: the session ended while the user was asked whether this call may run. It was never approved, and nothing "
    "of it was done; make the call again if it is still needed."
)
NOT_BEGUN_TEXT = "not run: the session ended before this call began."


async def ignore_states(states: Mapping[str, CallState]) -> None:
    """Do nothing; the default for `CallProgress.store_states`."""


@dataclass(slots=True)
class CallProgress:
    """The progress of the tool calls of the current step."""

    store_states: Callable[[Mapping[str, CallState]], Awaitable[None]] = ignore_states
    """Stores the state of all calls of the step. Raises `StoreFailed`."""
    _states: dict[str, CallState] = field(default_factory=dict)
    _is_recorded: bool = False
    _must_be_stored: bool = False
    """Whether a failure to store a state must be reported, because states of this step are already stored or the user
    is being asked."""
    _answered_call_ids: frozenset[str] = frozenset()
    """Ids of the calls that already had outputs when the session ended."""
    _change_count: int = 0
    _stored_change_count: int = 0
    """Number of changes that have been stored."""
    _write_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def begin_step(self, calls: Sequence[ToolCall]) -> None:
        """Start the next step; none of its calls has begun yet."""
        self._states, self._is_recorded = {call.id: "waiting" for call in calls}, len(calls) > 1
        self._must_be_stored = False
        self._answered_call_ids = frozenset()

    def resume_step(self, states: Mapping[str, CallState]) -> None:
        """Continue a step with the call states that were stored when the session ended."""
        self._states, self._is_recorded, self._must_be_stored = dict(states), True, True
        self._answered_call_ids = frozenset(
            call_id for call_id, state in states.items() if isinstance(state, ToolOutput)
        )

    def output_of(self, call_id: str) -> ToolOutput | None:
        """Return the output of a call that must not run again. None if the call may run."""
        state = self._states.get(call_id) if call_id in self._answered_call_ids else None
        return state if isinstance(state, ToolOutput) else None

    def edited_arguments(self, call_id: str) -> Mapping[str, object] | None:
        """Return the arguments that the user edited before the session ended; None if the user did not edit them."""
        state = self._states.get(call_id)
        return state.arguments if isinstance(state, PendingEdit) else None

    async def record_question(self, call_id: str, edited_arguments: Mapping[str, object] | None = None) -> None:
        """Record that the user is about to be asked about a call. `edited_arguments`: its arguments as edited by the
        user."""
        self._is_recorded = self._must_be_stored = True
        await self._set_state(call_id, "asked" if edited_arguments is None else PendingEdit(edited_arguments))

    async def record_start(self, call_id: str) -> None:
        """Record that a call is about to run."""
        await self._set_state(call_id, "begun")

    async def record_output(self, output: ToolOutput) -> None:
        await self._set_state(output.call_id, output)

    async def _set_state(self, call_id: str, state: CallState) -> None:
        self._states[call_id] = state
        self._change_count += 1
        if not self._is_recorded:
            return
        change_number = self._change_count
        async with self._write_lock:
            if self._stored_change_count < change_number:  # if false, a concurrent write has already stored this change
                written_count = self._change_count
                await self._write()
                self._stored_change_count = written_count

    async def _write(self) -> None:
        """Store the states. If the database cannot store them, recording stops. A call that is running when the program
        dies then counts as interrupted. Raises `StoreFailed` if `_must_be_stored`, or if storing failed for another
        reason."""
        try:
            await self.store_states(dict(self._states))
            self._must_be_stored = True
        except StoreFailed as error:
            if self._must_be_stored or error.reason != "unreadable":
                raise
            self._is_recorded = False


def can_run(state: CallState | None) -> bool:
    """Whether a call in this state may run now."""
    return state in ("waiting", "asked") or isinstance(state, PendingEdit)


def has_open_question(states: Mapping[str, CallState]) -> bool:
    """Whether the session ended while the user was being asked about a call."""
    return any(state == "asked" or isinstance(state, PendingEdit) for state in states.values())


def output_for_open_call(call: ToolCall, states: Mapping[str, CallState]) -> ToolOutput:
    """Build the output for an unanswered call that will neither run nor be asked about again."""
    match states.get(call.id):
        case ToolOutput() as output:
            return output
        case "asked" | PendingEdit():
            return ToolOutput(call.id, NOT_APPROVED_TEXT, "denied")
        case "waiting":
            return ToolOutput(call.id, NOT_BEGUN_TEXT, "cancelled")
        case "begun" | None:
            text = AGENT_INTERRUPTED_TEXT if call.name == TASK_TOOL else CALL_INTERRUPTED_TEXT
            return ToolOutput(call.id, text, "interrupted")
