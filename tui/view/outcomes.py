"""How a call ended, in a few words, and what of its output says why. Pure; it knows no ink."""

import re

from agent.context.offload import own_words
from agent.messages import BY_USER
from tools.extent import counted as so_many
from tui.text.unified_diff import counted
from tui.view.blocks import Call

FEW, USERS_LINES = 3, 12
"""Lines that a folded call shows: of a failure, and of what a command of the user printed."""

_EDITED = "as you changed it"
_LOOKED_AT = 40
"""Lines from the end among which the one is looked for that says how a command ended: hooks may speak behind it."""
_ENDED = re.compile(
    r"(?:job-\d+: )?(?P<how>exit code \d+|killed by (?:SIG\w+|signal \d+))|ended: (?P<late>not finished after \d+ s);.*"
)
_NOTHING = ("no output",), ("no new output",)


def outcome_of(call: Call, diff: str) -> str:
    """What stands behind the title of a call; `diff` is what it changed."""
    outcome = _ending(call, diff)
    return f"{_EDITED}  {outcome}".rstrip() if call.is_edited else outcome


def _ending(call: Call, diff: str) -> str:
    match call.status:
        case "done":
            if diff:
                added, removed = counted(diff)
                return f"+{added} −{removed}"
            count = count_of(own_words(call.text, call.inserted), call.lines)
            return so_many(count, "line") if count else ""
        case "asking":
            return "waits for you"
        case "failed":
            return _parted(own_words(call.text, call.inserted))[1]
        case "running":
            return ""
        case "denied" | "cancelled" | "interrupted":
            return call.status


def count_of(text: str, lines: int | None) -> int:
    """Lines that a call gave back, of all of it where `lines` says so: how a command ended is none of them."""
    return len(_parted(text)[0]) if lines is None else lines


def few_lines(call: Call) -> tuple[tuple[str, ...], bool]:
    """What a call that is over shows of its output while it is folded, and whether a command printed it: long lines of
    programs are cut, the sentences of tools are not."""
    if call.call_id.startswith(BY_USER):
        return _parted(own_words(call.text, call.inserted))[0][-USERS_LINES:], True
    if call.status != "failed":
        return (), True
    lines, ended = why_failed(own_words(call.text, call.inserted))
    return lines, bool(ended)


def why_failed(text: str) -> tuple[tuple[str, ...], str]:
    """The lines of a failed call's output that say why, and how its command ended: of what a command printed the last
    ones, of what a tool says the first ones."""
    lines, ended = _parted(text)
    said = tuple(line for line in lines if line.strip())
    return (said[-FEW:] if ended else said[:FEW]), ended


def _parted(text: str) -> tuple[tuple[str, ...], str]:
    """The lines of an output, and how the command ended that printed them; empty where there was none."""
    lines = text.strip("\n").split("\n") if text.strip() else []
    for index in range(len(lines) - 1, max(-1, len(lines) - 1 - _LOOKED_AT), -1):
        found = _ENDED.fullmatch(lines[index])
        if found:
            printed = tuple(lines[:index])
            return () if printed in _NOTHING else printed, found["how"] or found["late"]
    return tuple(lines), ""
