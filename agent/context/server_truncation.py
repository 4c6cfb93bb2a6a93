"""Whether a server has read all that it was sent. Pure: what was sent and what was counted in, a finding out.

A server whose window is smaller than it is said to be may leave out the beginning without a word: what it counts stays
the same, or sinks, while requests grow. So the growth that it reports is compared with the least that the new text can
take, whatever the tokenizer: half of its words. A server that counts all by a factor, in steps or without the tools
never stays below that; one that counts only what it had not read before is known by counts that follow what is new.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile
from typing import Literal, TypeAlias

from ebbtide.agent.context.count_jitter import RequestCount, truncation_odds
from ebbtide.agent.context.incremental import memoized
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, Text, ToolCall, ToolOutput, User
from ebbtide.tools.lazy import dataclass, regex

TruncationFinding: TypeAlias = Literal["whole", "fresh", "doubtful", "truncated"]
"""`whole`: all was read, as far as one can know. `fresh`: only what was new was counted. `doubtful`: less was counted
than can be, which may happen once. `truncated`: the beginning is left out."""

MIN_WINDOW_TOKENS = 1000
"""No server's window is smaller than this; a lower count says nothing of a window."""
MAX_DOUBTS = 2
"""Requests of which less was counted than can be, after which the server is taken to leave something out."""
_CHARS_PER_WORD = 5
"""Text has no more words than one for so many characters, for whoever counts characters."""
SURE = math.log(25)
"""How much likelier low counts must be of such a server than of one that counts at random (`truncation_odds`)."""
_LEAST_OPENING = 0.1
"""How much of its estimate what stands in front of the messages takes at the least, with or without tools."""
_STEP, _MIN_KNOWN_COUNTS = 200, 4
"""Tokens by which counts may be off at least, since some servers count in blocks, as long as fewer are known than so
many."""
_MOST_STEP = 2048
_JITTER = 0.02
_MAX_COUNTS = 8
_CLEARLY_LARGER = 1.25
"""How much larger than its count a request must be expected to be, to be one of which something was left out."""
_LEAST_STEP, _LARGEST_STEP = 64, 1024
"""Tokens in which a server may count, at the least where nothing is known of it and at most."""
_MIN_REPEATED_COUNTS = 2
"""Requests before a count that is the same again."""
_MAX_COMPARED = 24
_WORD = regex(r"[a-zA-Z0-9]{1,16}|[^\W_]{1,4}")


@dataclass(frozen=True, slots=True)
class CountedRequest:
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
    plain: int = 0
    """Estimated tokens of its messages by weights that learn nothing."""
    newest: tuple[int, ...] = ()
    """Estimated tokens of what stands in front of the messages and the newest of these, with one more each."""


@dataclass(frozen=True, slots=True)
class CountRecord:
    """What a session remembers of its server's counts."""

    height: float = 0.0
    """The most that was counted of a request beyond half of its words, since the last rewrite."""
    most: int = 0
    """The largest count since then."""
    counts: tuple[int, ...] = ()
    """The last counts."""
    short: tuple[tuple[int, int], ...] = ()
    """The counts that were too low and what was expected, since more was read than was left out then."""
    low: tuple[tuple[int, ...], ...] = ()
    """The last counts that were not of all, with what was new then: with the reply and without it."""
    is_fresh: bool = False
    """The server has counted only what was new, at least once."""
    compared: tuple[RequestCount, ...] = ()
    """The last counts, with what tells those that are off at random."""
    constant: int = 0
    """The usage that is reported whatever is sent; 0 if it is not known to be one."""

    @property
    def window(self) -> int:
        """The window that a server has shown that leaves something out: the most that it has counted of late. Where it
        leaves out whole messages, that may be little: half of the smallest request that was too large is tried."""
        sent = min(expected for _, expected in self.short)
        shortest = max(counted for counted, _ in self.short)
        most = max((counted for counted in self.counts if counted <= sent), default=shortest)
        return max(most, sent // 2) if most > 1.1 * shortest else most

    def with_compared(self, sent: CountedRequest, *, is_low: bool) -> "CountRecord":
        """With a count that may be of all, or that `is_low`."""
        is_first = not self.compared or self.most == 0
        most = 1.02 * max((one.counted for one in self.compared), default=0)
        fitting = max((size for size in sent.newest if size <= most), default=0)
        counted = RequestCount(sent.counted, sent.expected, sent.plain, is_low, is_first, fitting)
        return replace(self, compared=(*self.compared, counted)[-_MAX_COMPARED:])

    def after_rewrite(self) -> "CountRecord":
        """After a rewrite requests are not longer than those before, and are compared with none of them."""
        return replace(self, height=0.0, most=0)

    def with_earlier_count(self, least: int, counted: int, plain: int) -> "CountRecord":
        """With a request that was counted before the program was started."""
        compared = (RequestCount(counted, counted, plain, False, True),)
        return replace(self, height=max(counted - least / 2, 0.0), most=counted, compared=compared)


def judge(record: CountRecord, sent: CountedRequest) -> tuple[TruncationFinding, CountRecord]:
    """What a count says, and the record with it."""
    counts = (*record.counts, sent.counted)[-_MAX_COUNTS:]
    after = replace(record, counts=counts, constant=_constant(record.constant, counts, sent))
    height = sent.counted - sent.least / 2
    missing = record.height - height
    is_fresh = _is_fresh(record, sent)
    has_stood = not is_fresh and _has_stood(record.compared, sent, missing)
    if not has_stood and not sent.is_over and not is_fresh and missing <= step_of(counts) + _JITTER * sent.counted:
        return "whole", _with_whole(after, sent, height)
    after = replace(after, low=(*record.low, (sent.counted, *reversed(sent.new)))[-_MAX_COUNTS:]).with_compared(
        sent, is_low=True
    )
    is_full = _is_full(record, sent)
    if not is_full and is_fresh:
        return "fresh", replace(after, is_fresh=True, most=max(record.most, sent.counted))
    after = replace(after, short=(*record.short, (sent.counted, sent.expected))[-_MAX_COUNTS:])
    is_likely = (is_full or len(after.short) >= MAX_DOUBTS) and truncation_odds(after.compared) >= SURE
    is_shown = sent.is_first or is_likely or has_stood or _stands_still(after)
    is_window = sent.counted >= MIN_WINDOW_TOKENS and after.constant != sent.counted
    return ("truncated" if is_shown and is_window else "doubtful"), after


def _constant(known: int, counts: tuple[int, ...], sent: CountedRequest) -> int:
    """The usage that a relay or a stand-in reports whatever it is sent; 0 if it is not known to be one.

    Either it is less than what stands in front of the messages, or the first request was about as large, so that
    nothing can have been left out of it. Nor is it what Ollama counts of a full window: the window, or half of it and
    up to three (ollama/ollama issues 3839, 10368, 17427 and 17889)."""
    if len(set(counts)) > 1:
        return 0
    is_full_window = (sent.counted + 1) % 256 <= 4
    is_too_small = sent.counted < sent.opening
    was_about_as_large = len(counts) == 1 and sent.expected < _CLEARLY_LARGER * sent.counted
    is_constant = not sent.is_over and not is_full_window and (is_too_small or was_about_as_large)
    return sent.counted if is_constant or known == sent.counted else 0


def _stands_still(record: CountRecord) -> bool:
    """Whether the last three low counts are the same to the token, with or without others between: every other request
    may go to a server with a larger window. At random that does not happen."""
    last = [low[0] for low in record.low[-3:]]
    return len(last) == 3 and max(last) - min(last) <= 1


def _has_stood(compared: tuple[RequestCount, ...], sent: CountedRequest, missing: float) -> bool:
    """Whether the last counts were the same to the token while the requests grew by more than any step in which the
    server may count, by all that it has counted. The floor of what a text takes is so low that it would tell far later,
    of Chinese for one."""
    same = list(takewhile(lambda one: one.counted == sent.counted, reversed(compared)))
    first = next((place for place, one in enumerate(same) if one.is_first), len(same) - 1)
    if first + 1 < _MIN_REPEATED_COUNTS:
        return False
    step = math.gcd(sent.counted, *(one.counted for one in compared if one.counted >= _LEAST_STEP))
    step = max(part for part in range(1, _LARGEST_STEP + 1) if step % part == 0)
    # What was expected begins anew with each count that may be of all; the floor, of which half is `missing`, does not.
    return max(sent.expected - same[first].expected, 2 * missing) >= 3 * max(step, _LEAST_STEP)


def _with_whole(record: CountRecord, sent: CountedRequest, height: float) -> CountRecord:
    """Doubts end when more is read than was sent when they arose: what is full grows no more."""
    short = () if record.short and sent.counted > min(expected for _, expected in record.short) else record.short
    after = record.with_compared(sent, is_low=False)
    return replace(after, height=max(record.height, height), most=max(record.most, sent.counted), short=short)


def _is_fresh(record: CountRecord, sent: CountedRequest) -> bool:
    """Whether what was new explains a low count, which is not the very count that was of all before; with what stands
    in front of all, it would be read by a server that leaves out the rest. That may be known to it before the session
    begins. After a rewrite, one that has counted so before counts anything between that and all."""
    is_most = not record.is_fresh and abs(record.most - sent.counted) <= 1
    if sent.is_over or is_most:
        return False
    if record.is_fresh and record.most == 0:
        return sent.counted < 0.85 * sent.expected
    if sent.is_first and sent.counted < _LEAST_OPENING * sent.opening:
        return True
    least, most = sent.new
    highest = min(1.35 * most + 300, 1.1 * most + (200 if sent.is_first else max(sent.opening / 2, 200)))
    return 0.7 * least - 100 <= sent.counted <= min(highest, 0.75 * sent.expected)


def _is_full(record: CountRecord, sent: CountedRequest) -> bool:
    """Whether as much was counted before, when far more or far less was new, or the same to the token two times when
    not the same was new: then it is not what is new that counts."""
    near = [one for one in record.low if abs(one[0] - sent.counted) <= 0.1 * sent.counted]
    same = [one for one in near if abs(one[0] - sent.counted) <= 1 and not _as_much_new(one, sent, 1.01)]
    return len(same) >= 2 or any(not _as_much_new(one, sent, 1.6) for one in near)


def _as_much_new(low: tuple[int, ...], sent: CountedRequest, within: float) -> bool:
    """Whether about as much was new at that count, with or without the reply: who counts what is new counts one of
    both."""
    pairs = zip(low[1:], reversed(sent.new), strict=False)  # an earlier version kept the first only
    return any(1 / within < max(before, 1) / max(new, 1) < within for before, new in pairs)


def step_of(counts: tuple[int, ...]) -> int:
    """The steps that a server may count in, by the counts that it has given: what divides them all. Of one number alone
    that is not known, and a good part of it is taken; of a few, little."""
    known = set(counts)
    if len(known) < 2:
        return min(counts[0] // 4, _MOST_STEP // 2) if counts else _STEP
    return min(max(math.gcd(*known), _STEP if len(known) < _MIN_KNOWN_COUNTS else _LEAST_STEP), _MOST_STEP)


def min_tokens(messages: Iterable[Message]) -> int:
    """The tokens that messages take at the least, whatever counts them."""
    return sum(map(_min_message_tokens, messages))


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


@memoized
def _min_message_tokens(message: Message) -> int:
    return sum(min(len(_WORD.findall(text)), len(text) // _CHARS_PER_WORD) for text in _texts(message))


def truncation_notice(counted: int, expected: int) -> str:
    """What the user is told of a server that leaves something out, and what to do about it."""
    return (
        f"the server read only {counted:,} of about {expected:,} tokens: it leaves out the beginning of what it is "
        "sent. From now on requests are kept as small as what it reads. Set `agent.context_window` to the window that "
        "the server really has, or give the model a larger one there (`num_ctx` of Ollama, `--ctx-size` of llama.cpp)"
    )


def window_refuted(counted: int, known: int) -> str:
    """What the user is told when that was wrong."""
    return (
        f"the server has read {counted:,} tokens after all, more than its counts had shown: its window counts as "
        f"{known:,} tokens again. It does not count the same text alike"
    )
