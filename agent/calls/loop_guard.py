"""Detects repeated calls with the same output: warns the model, then stops the turn."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import field

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.messages import USER_CALL_PREFIX, ToolCall, ToolOutput
from ebbtide.tools.base import Effect, ToolError
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.tool_traits import role_of

WARN_AFTER_CALLS, STOP_AFTER_CALLS = 3, 5
"""Number of identical calls after which the model is warned, and number after which the turn is stopped."""
CONTINUE_OPTION, STOP_OPTION = "go on", "stop the turn"
_NUMBER_WORDS = {3: "three", 4: "four"}
_WAITING_COMMANDS = regex(r"\b(sleep|wait|watch|inotifywait)\b")


@dataclass(slots=True)
class LoopGuard:
    """Counts identical calls with identical outputs in a turn. Counts are reset when another call might have changed
    something. Calls that wait for something may be repeated."""

    repeated_tool: str = ""
    """The tool whose repeated calls should stop the turn; empty if there is none."""
    _counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _known_results: set[tuple[str, ...]] = field(default_factory=set)

    def reset(self) -> None:
        """Reset all counts."""
        self.repeated_tool = ""
        self._counts.clear()
        self._known_results.clear()

    def count_call(self, call: ToolCall, output: ToolOutput, effect: Effect) -> str:
        """Count a call. Return a warning for the model; empty if there is none."""
        if call.id.startswith(USER_CALL_PREFIX) or _is_waiting(call, output):
            return ""
        output_key = output.stored.digest if output.stored is not None else output.text
        key = (call.name, json.dumps(dict(call.arguments), sort_keys=True, default=str), output.status, output_key)
        if key not in self._known_results and _may_have_changed(effect, output):
            self._counts.clear()
        self._known_results.add(key)
        self._counts[key] += 1
        count = self._counts[key]
        if count >= STOP_AFTER_CALLS:
            self.repeated_tool = call.name
        if count < WARN_AFTER_CALLS:
            return ""
        times = _NUMBER_WORDS.get(count, f"{count}")
        return (
            f"[This call has returned the same output {times} times, and nothing was changed in between: it will do so "
            "again. Make a different call, or say in your answer what blocks you.]"
        )


async def should_stop_turn(
    guard: LoopGuard | None, ask: Callable[[str, tuple[str, ...]], Awaitable[str]], interrupt: Interrupt
) -> bool:
    """Decide whether to end the turn because of repeated calls. Ask the user, if there is one."""
    if guard is None or not guard.repeated_tool:
        return False

    async def ask_user() -> str:
        return await ask(
            f"The model called `{guard.repeated_tool}` {STOP_AFTER_CALLS} times, with the same outcome.",
            (CONTINUE_OPTION, STOP_OPTION),
        )

    try:
        answer = await interrupt.race(ask_user())
    except ToolError:  # there is no user to ask
        return True
    guard.reset()
    return answer == STOP_OPTION


def _may_have_changed(effect: Effect, output: ToolOutput) -> bool:
    """Whether a call might have changed something. A failed file tool has changed nothing."""
    ran = output.status in ("done", "failed", "interrupted")
    return (effect in ("run", "serve") and ran) or (effect == "write" and output.status == "done")


def _is_waiting(call: ToolCall, output: ToolOutput) -> bool:
    """Whether a call waits for something, so that its output might differ next time."""
    role = role_of(call.name)
    if role == "read_job":
        return bool(call.arguments.get("wait")) and output.status == "done"
    return role == "run_command" and _WAITING_COMMANDS.search(str(call.arguments.get("command", ""))) is not None
