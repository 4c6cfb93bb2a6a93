"""Calls that are made again and again and give the same each time: how often, what the model is told of it, and whether
the turn goes on."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import field

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.messages import BY_USER, ToolCall, ToolOutput
from ebbtide.tools.base import Effect, ToolError
from ebbtide.tools.lazy import dataclass, regex

WARN_AFTER, STOP_AFTER = 3, 5
"""From how many calls on the model is told, and with which of them the turn does not go on by itself."""
GO_ON, STOP = "go on", "stop the turn"
_NUMBERS = {3: "three", 4: "four"}
_WAITS = regex(r"\b(sleep|wait|watch|inotifywait)\b")


@dataclass(slots=True)
class LoopGuard:
    """Counts the calls of one turn that are the same and give the same, as long as nothing else is done between them
    that could change what they give. What waits for something is meant to be done again."""

    stuck: str = ""
    """The tool that was called once too often."""
    _counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _known: set[tuple[str, ...]] = field(default_factory=set)

    def begin(self) -> None:
        """Nothing was called yet."""
        self.stuck = ""
        self._counts.clear()
        self._known.clear()

    def note(self, call: ToolCall, output: ToolOutput, effect: Effect) -> str:
        """Counts a call; what the model is to be told of it, if anything."""
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
    """Whether the turn is to end, since the model does the same again and again: the user is asked, if there."""
    if guard is None or not guard.stuck:
        return False

    async def answered() -> str:
        return await ask(f"The model called `{guard.stuck}` {STOP_AFTER} times, with the same outcome.", (GO_ON, STOP))

    try:
        answer = await interrupt.race(answered())
    except ToolError:  # nobody is there
        return True
    guard.begin()
    return answer == STOP


def _may_have_changed(effect: Effect, output: ToolOutput) -> bool:
    """Whether something may be otherwise since a call. A change of files that failed has changed none."""
    ran = output.status in ("done", "failed", "interrupted")
    return (effect in ("run", "serve") and ran) or (effect == "write" and output.status == "done")


def _is_waiting(call: ToolCall, output: ToolOutput) -> bool:
    """Whether a call waits for something that goes on meanwhile."""
    if call.name == "bash_output":
        return bool(call.arguments.get("wait")) and output.status == "done"
    return call.name == "bash" and _WAITS.search(str(call.arguments.get("command", ""))) is not None
