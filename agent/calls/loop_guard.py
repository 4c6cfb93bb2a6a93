"""Detects calls repeated with the same output: warns the model, then stops the turn."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import field

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.messages import BY_USER, ToolCall, ToolOutput
from ebbtide.tools.base import Effect, ToolError
from ebbtide.tools.lazy import dataclass, regex

WARN_AFTER, STOP_AFTER = 3, 5
"""How many repetitions warn the model, and how many stop the turn."""
GO_ON, STOP = "go on", "stop the turn"
_NUMBERS = {3: "three", 4: "four"}
_WAITS = regex(r"\b(sleep|wait|watch|inotifywait)\b")


@dataclass(slots=True)
class LoopGuard:
    """Counts identical calls with identical outputs in a turn, as long as nothing in between could have changed
    them. Calls that wait for something may be repeated."""

    stuck: str = ""
    """The tool that was called once too often."""
    _counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _known: set[tuple[str, ...]] = field(default_factory=set)

    def begin(self) -> None:
        """Reset all counts."""
        self.stuck = ""
        self._counts.clear()
        self._known.clear()

    def note(self, call: ToolCall, output: ToolOutput, effect: Effect) -> str:
        """Count a call; return a warning for the model, if any."""
        if call.id.startswith(BY_USER) or _is_waiting(call, output):
            return ""
        given = output.stored.digest if output.stored is not None else output.text
        key = (call.name, json.dumps(dict(call.arguments), sort_keys=True, default=str), output.status, given)
        if key not in self._known and _may_have_changed(effect, output):
            self._counts.clear()
        self._known.add(key)
        self._counts[key] += 1
        count = self._counts[key]
        if count >= STOP_AFTER:
            self.stuck = call.name
        if count < WARN_AFTER:
            return ""
        times = _NUMBERS.get(count, f"{count}")
        return (
            f"[This same call has given this same output {times} times, and nothing was changed in between: it will "
            "again. Make another call, or say in your answer what is in the way.]"
        )


async def should_stop_looping(
    guard: LoopGuard | None, ask: Callable[[str, tuple[str, ...]], Awaitable[str]], interrupt: Interrupt
) -> bool:
    """Whether to end the turn because of repeated calls. The user is asked, if present."""
    if guard is None or not guard.stuck:
        return False

    async def answered() -> str:
        return await ask(f"The model called `{guard.stuck}` {STOP_AFTER} times, with the same outcome.", (GO_ON, STOP))

    try:
        answer = await interrupt.race(answered())
    except ToolError:  # no user to ask
        return True
    guard.begin()
    return answer == STOP


def _may_have_changed(effect: Effect, output: ToolOutput) -> bool:
    """Whether a call may have changed something. A failed file change has not."""
    ran = output.status in ("done", "failed", "interrupted")
    return (effect in ("run", "serve") and ran) or (effect == "write" and output.status == "done")


def _is_waiting(call: ToolCall, output: ToolOutput) -> bool:
    """Whether a call waits for something that may change in the meantime."""
    if call.name == "bash_output":
        return bool(call.arguments.get("wait")) and output.status == "done"
    return call.name == "bash" and _WAITS.search(str(call.arguments.get("command", ""))) is not None
