"""Whether a server has read all that it was sent. Pure: what was sent and what was counted in, a finding out.

A server whose window is smaller than it is said to be may leave out the beginning without a word: what it counts stays
the same, or sinks, while requests grow. So the growth that it reports is compared with the least that the new text can
take, whatever the tokenizer: half of its words. A server that counts all by a factor, in steps or without the tools
never stays below that; one that counts only what it had not read before is known by counts that follow what is new.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from agent.context.incremental import derived_once
from agent.messages import Assistant, Conversation, Message, Note, Text, ToolCall, ToolOutput, User
from tools.lazy import dataclass, regex

Finding: TypeAlias = Literal["whole", "fresh", "doubtful", "truncated"]
"""`whole`: all was read, as far as one can know. `fresh`: only what was new was counted. `doubtful`: less was counted
than can be, which may happen once. `truncated`: the beginning is left out."""

SMALLEST = 500
"""No server's window is smaller than this; a lower count says nothing of a window."""
DOUBTS = 2
"""Requests of which less was counted than can be, after which the server is taken to leave something out."""
_CHARS_PER_WORD = 5
"""Text has no more words than one for so many characters, for whoever counts characters."""
_STEP = 200
"""Tokens by which counts may be off at least: some servers count in blocks."""
_MOST_STEP = 2048
_JITTER = 0.02
_KEPT = 8
_WORD = regex(r"[a-zA-Z0-9]{1,16}|[^\W_]{1,4}")


@dataclass(frozen=True, slots=True)
class Sent:
    """A request and what the server counted of it."""

    least: int
    """Words of its messages, without system text and tools: no tokenizer takes fewer tokens."""
    new: tuple[int, int]
    """Estimated tokens of what was new to the server: without the reply that it had written itself, and with it."""
    counted: int
    expected: int
    """Estimated tokens of all of it."""
    opening: int = 0
    """Of these, what stands in front of the messages."""
    is_first: bool = False
    """Nothing of its messages can have been read before: the session begins with it."""
    is_over: bool = False
    """By its estimate it is larger than the whole window, and was counted as smaller."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a session remembers of its server's counts."""

    height: float = 0.0
    """The most that was counted of a request beyond half of its words, since the last rewrite."""
    most: int = 0
    """The largest count since then."""
    counts: tuple[int, ...] = ()
    """The last counts."""
    short: tuple[tuple[int, int], ...] = ()
    """The counts that were too low and what was expected, since more was read than was left out then."""
    low: tuple[tuple[int, int], ...] = ()
    """The last counts that were not of all, with what was new then."""
    is_fresh: bool = False
    """The server has counted only what was new, at least once."""

    @property
    def window(self) -> int:
        """The window that a server has shown that leaves something out: the most that it has counted of late. Where it
        leaves out whole messages, that may be little: half of the smallest request that was too large is tried."""
        sent = min(expected for _, expected in self.short)
        shortest = max(counted for counted, _ in self.short)
        most = max((counted for counted in self.counts if counted <= 0.9 * sent), default=shortest)
        return max(most, sent // 2) if most > 1.1 * shortest else most

    def rewritten(self) -> "Record":
        """After a rewrite requests are not longer than those before, and are compared with none of them."""
        return replace(self, height=0.0, most=0)

    def seeded(self, least: int, counted: int) -> "Record":
        """With a request that was counted before the program was started."""
        return replace(self, height=max(counted - least / 2, 0.0), most=counted)


def judge(record: Record, sent: Sent) -> tuple[Finding, Record]:
    """What a count says, and the record with it."""
    counts = (*record.counts, sent.counted)[-_KEPT:]
    after = replace(record, counts=counts)
    height = sent.counted - sent.least / 2
    missing = record.height - height
    is_fresh = _is_fresh(record, sent)
    if not sent.is_over and not is_fresh and missing <= step_of(counts) + _JITTER * sent.counted:
        return "whole", _with_whole(after, sent, height)
    after = replace(after, low=(*record.low, (sent.counted, sent.new[1]))[-_KEPT:])
    is_full = _is_full(record, sent)
    if not is_full and is_fresh:
        return "fresh", replace(after, short=(), is_fresh=True, most=max(record.most, sent.counted))
    after = replace(after, short=(*record.short, (sent.counted, sent.expected))[-_KEPT:])
    is_shown = is_full or sent.is_first or len(after.short) >= DOUBTS or _stands_still(after, sent)
    return ("truncated" if is_shown and sent.counted >= SMALLEST else "doubtful"), after


def _stands_still(record: Record, sent: Sent) -> bool:
    """Whether the same low count came three times, with or without others between: every other request may go to a
    server with a larger window."""
    return sum(abs(counted - sent.counted) <= 0.004 * counted for counted, _ in record.low) >= 3


def _with_whole(record: Record, sent: Sent, height: float) -> Record:
    """Doubts end when more is read than was left out when they arose: what is full grows no more."""
    short = () if record.short and sent.counted > 0.7 * min(expected for _, expected in record.short) else record.short
    return replace(record, height=max(record.height, height), most=max(record.most, sent.counted), short=short)


def _is_fresh(record: Record, sent: Sent) -> bool:
    """Whether what was new explains a low count; with what stands in front of all, it would be read by a server that
    leaves out the rest. After a rewrite, one that has counted so before counts anything between that and all."""
    if sent.is_first or sent.is_over:
        return False
    if record.is_fresh and record.most == 0:
        return sent.counted < 0.85 * sent.expected
    least, most = sent.new
    highest = min(1.35 * most + 300, 1.1 * most + max(sent.opening / 2, 200))
    return 0.7 * least - 100 <= sent.counted <= min(highest, 0.75 * sent.expected)


def _is_full(record: Record, sent: Sent) -> bool:
    """Whether as much was counted before, when far more or far less was new: then it is not what is new that counts."""
    new = max(sent.new[1], 1)
    return any(
        abs(counted - sent.counted) <= 0.1 * sent.counted and not 1 / 1.6 < max(before, 1) / new < 1.6
        for counted, before in record.low
    )


def step_of(counts: tuple[int, ...]) -> int:
    """The steps that a server may count in, by the counts that it has given: what divides them all. Of one number alone
    that is not known, and a good part of it is taken."""
    if len(set(counts)) < 2:
        return min(counts[0] // 4, _MOST_STEP // 2) if counts else _STEP
    return min(max(math.gcd(*counts), _STEP), _MOST_STEP)


def least_of(messages: Iterable[Message]) -> int:
    """The tokens that messages take at the least, whatever counts them."""
    return sum(map(_least_of, messages))


def is_new(conversation: Conversation) -> bool:
    """Whether no request of the session was answered yet."""
    opened = conversation.summary.retain or conversation.summary.summary or conversation.summary.ledger
    return not opened and not any(isinstance(message, Assistant) for message in conversation.messages)


def since_reply(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What was said after the newest reply."""
    at = next((i for i in range(len(messages), 0, -1) if isinstance(messages[i - 1], Assistant)), 0)
    return tuple(message for message in messages[at:] if isinstance(message, User))


def _texts(message: Message) -> Iterable[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | Note(text=text) | ToolOutput(text=text):
                yield text
            case ToolCall(source=source):
                yield source
            case _:
                pass  # reasoning may stay behind; what pictures take is known by nobody


@derived_once
def _least_of(message: Message) -> int:
    return sum(min(len(_WORD.findall(text)), len(text) // _CHARS_PER_WORD) for text in _texts(message))
