"""Detects whether a server silently truncated a request, from its token counts. Pure.

A server with a smaller window than stated may silently leave out the beginning: its counts stay the same or sink while
requests grow. So the reported growth is compared with a lower bound for the new text under any tokenizer: half of its
words. A server that counts by a constant factor, in steps or without the tools never falls below that; one that counts
only uncached text is recognised because its counts follow the size of the new text.
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
"""`whole`: everything was read, as far as one can know. `fresh`: only new text was counted. `doubtful`: the count is
lower than possible, which may happen once. `truncated`: the beginning was left out."""

MIN_WINDOW_TOKENS = 1000
"""No server's window is smaller than this; a lower count says nothing about the window."""
MAX_DOUBTS = 2
"""Number of impossibly low counts after which the server is considered to truncate."""
_CHARS_PER_WORD = 5
"""Minimum characters per word, for servers that count characters."""
SURE = math.log(25)
"""Log-likelihood ratio required for a truncating server against a noisy one (`truncation_odds`)."""
_LEAST_OPENING = 0.1
"""Minimum share of the estimate for what precedes the messages, with or without tools."""
_STEP, _MIN_KNOWN_COUNTS = 200, 4
"""Minimum tolerance of counts in tokens, because some servers count in blocks, until this many counts are known."""
_MOST_STEP = 2048
_JITTER = 0.02
_MAX_COUNTS = 8
_CLEARLY_LARGER = 1.25
"""Ratio of expected to reported size from which a request is considered truncated."""
_LEAST_STEP, _LARGEST_STEP = 64, 1024
"""Block size in which a server may count, in tokens: minimum if nothing is known, and maximum."""
_MIN_REPEATED_COUNTS = 2
"""Minimum number of previous requests with the same count."""
_MAX_COMPARED = 24
_WORD = regex(r"[a-zA-Z0-9]{1,16}|[^\W_]{1,4}")


@dataclass(frozen=True, slots=True)
class CountedRequest:
    """A request and the server's count of it."""

    least: int
    """Words of its messages, without system prompt and tools: a lower bound for any tokenizer."""
    new: tuple[int, int]
    """Estimated tokens that are new to the server: without and with the reply that it wrote itself."""
    counted: int
    expected: int
    """Estimated tokens of the whole request."""
    opening: int = 0
    """Estimated tokens before the messages."""
    is_first: bool = False
    """The first request of the session: none of its messages can have been read before."""
    is_over: bool = False
    """Estimated above the whole window, but counted below it."""
    plain: int = 0
    """Estimated tokens of its messages by fixed weights."""
    newest: tuple[int, ...] = ()
    """Estimated tokens of what precedes the messages plus the newest of them, adding one message each."""


@dataclass(frozen=True, slots=True)
class CountRecord:
    """A session's history of its server's counts."""

    height: float = 0.0
    """Largest excess of a count over half the words of its request, since the last rewrite."""
    most: int = 0
    """Largest count since the last rewrite."""
    counts: tuple[int, ...] = ()
    """The last counts."""
    short: tuple[tuple[int, int], ...] = ()
    """Counts that were too low, with the expected ones, since the doubts were last cleared."""
    low: tuple[tuple[int, ...], ...] = ()
    """The last incomplete counts, with the size of the new text then: with and without the reply."""
    is_fresh: bool = False
    """Whether the server has counted only new text at least once."""
    compared: tuple[RequestCount, ...] = ()
    """The last counts, with what is needed to recognise noise."""
    constant: int = 0
    """The usage that the server reports for any request; 0 if it is not known to be constant."""

    @property
    def window(self) -> int:
        """The window of a truncating server: its largest recent count. If it drops whole messages that may be too low;
        then half of the smallest request that was too large is tried."""
        sent = min(expected for _, expected in self.short)
        shortest = max(counted for counted, _ in self.short)
        most = max((counted for counted in self.counts if counted <= sent), default=shortest)
        return max(most, sent // 2) if most > 1.1 * shortest else most

    def with_compared(self, sent: CountedRequest, *, is_low: bool) -> "CountRecord":
        """Add a count that may be complete, or that `is_low`."""
        is_first = not self.compared or self.most == 0
        most = 1.02 * max((one.counted for one in self.compared), default=0)
        fitting = max((size for size in sent.newest if size <= most), default=0)
        counted = RequestCount(sent.counted, sent.expected, sent.plain, is_low, is_first, fitting)
        return replace(self, compared=(*self.compared, counted)[-_MAX_COMPARED:])

    def after_rewrite(self) -> "CountRecord":
        """Forget the comparison values: requests after a rewrite are shorter than before."""
        return replace(self, height=0.0, most=0)

    def with_earlier_count(self, least: int, counted: int, plain: int) -> "CountRecord":
        """Add a request that was counted before the program was started."""
        compared = (RequestCount(counted, counted, plain, False, True),)
        return replace(self, height=max(counted - least / 2, 0.0), most=counted, compared=compared)


def judge(record: CountRecord, sent: CountedRequest) -> tuple[TruncationFinding, CountRecord]:
    """Judge a count, and return the finding and the updated record."""
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
    """Return the constant usage that a relay or stand-in reports for any request; 0 if none is known.

    Either it is below the size of what precedes the messages, or the first request was about that large, so nothing can
    have been left out of it. It must not be what Ollama counts for a full window: the window, or half of it and up to
    three (ollama/ollama issues 3839, 10368, 17427 and 17889).
    """
    if len(set(counts)) > 1:
        return 0
    is_full_window = (sent.counted + 1) % 256 <= 4
    is_too_small = sent.counted < sent.opening
    was_about_as_large = len(counts) == 1 and sent.expected < _CLEARLY_LARGER * sent.counted
    is_constant = not sent.is_over and not is_full_window and (is_too_small or was_about_as_large)
    return sent.counted if is_constant or known == sent.counted else 0


def _stands_still(record: CountRecord) -> bool:
    """Whether the last three low counts are identical, even with others in between: every other request may go to a
    server with a larger window. Noise does not repeat itself."""
    last = [low[0] for low in record.low[-3:]]
    return len(last) == 3 and max(last) - min(last) <= 1


def _has_stood(compared: tuple[RequestCount, ...], sent: CountedRequest, missing: float) -> bool:
    """Whether the last counts were identical while the requests grew by more than any block size compatible with all
    counts. The lower bound alone would detect this far later, for Chinese for example."""
    same = list(takewhile(lambda one: one.counted == sent.counted, reversed(compared)))
    first = next((place for place, one in enumerate(same) if one.is_first), len(same) - 1)
    if first + 1 < _MIN_REPEATED_COUNTS:
        return False
    step = math.gcd(sent.counted, *(one.counted for one in compared if one.counted >= _LEAST_STEP))
    step = max(part for part in range(1, _LARGEST_STEP + 1) if step % part == 0)
    # The expected size starts over with each count that may be complete; the lower bound, half of which is `missing`,
    # does not.
    return max(sent.expected - same[first].expected, 2 * missing) >= 3 * max(step, _LEAST_STEP)


def _with_whole(record: CountRecord, sent: CountedRequest, height: float) -> CountRecord:
    """Doubts end when more is read than was sent when they arose: a full window cannot grow."""
    short = () if record.short and sent.counted > min(expected for _, expected in record.short) else record.short
    after = record.with_compared(sent, is_low=False)
    return replace(after, height=max(record.height, height), most=max(record.most, sent.counted), short=short)


def _is_fresh(record: CountRecord, sent: CountedRequest) -> bool:
    """Whether new text explains a low count. It must differ from the last complete count, and from the new text plus
    what precedes the messages, which a truncating server would read. The server may know the latter before the session
    begins. After a rewrite, a server that has counted this way before may report anything between that and the full
    size."""
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
    """Whether a similar count occurred before with far more or far less new text, or the identical one twice with
    different new text. Then the count does not depend on the new text."""
    near = [one for one in record.low if abs(one[0] - sent.counted) <= 0.1 * sent.counted]
    same = [one for one in near if abs(one[0] - sent.counted) <= 1 and not _as_much_new(one, sent, 1.01)]
    return len(same) >= 2 or any(not _as_much_new(one, sent, 1.6) for one in near)


def _as_much_new(low: tuple[int, ...], sent: CountedRequest, within: float) -> bool:
    """Whether about as much was new at that count, with or without the reply: a server that counts new text counts one
    of both."""
    pairs = zip(low[1:], reversed(sent.new), strict=False)  # an earlier version stored only the first
    return any(1 / within < max(before, 1) / max(new, 1) < within for before, new in pairs)


def step_of(counts: tuple[int, ...]) -> int:
    """Return the block size that a server may count in: the greatest common divisor of its counts. A single count does
    not determine it, so a large part of that is assumed; with a few counts, little."""
    known = set(counts)
    if len(known) < 2:
        return min(counts[0] // 4, _MOST_STEP // 2) if counts else _STEP
    return min(max(math.gcd(*known), _STEP if len(known) < _MIN_KNOWN_COUNTS else _LEAST_STEP), _MOST_STEP)


def min_tokens(messages: Iterable[Message]) -> int:
    """Lower bound for the tokens of messages under any tokenizer."""
    return sum(map(_min_message_tokens, messages))


def is_new(conversation: Conversation) -> bool:
    """Whether no request of the session has been answered yet."""
    opened = conversation.summary.retain or conversation.summary.summary or conversation.summary.ledger
    return not opened and not any(isinstance(message, Assistant) for message in conversation.messages)


def since_reply(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the user messages after the newest reply."""
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
                pass  # reasoning may be dropped; the size of pictures is unknown


@memoized
def _min_message_tokens(message: Message) -> int:
    return sum(min(len(_WORD.findall(text)), len(text) // _CHARS_PER_WORD) for text in _texts(message))


def truncation_notice(counted: int, expected: int) -> str:
    """Return the notice about a truncating server, and what to do about it."""
    return (
        f"the server read only {counted:,} of about {expected:,} tokens: it drops the beginning of "
        "requests. From now on requests are kept within what it reads. Set `agent.context_window` to the window that "
        "the server really has, or configure a larger one there (`num_ctx` of Ollama, `--ctx-size` of llama.cpp)"
    )


def window_refuted(counted: int, known: int) -> str:
    """Return the notice that the earlier one was wrong."""
    return (
        f"the server has now read {counted:,} tokens, more than its counts suggested: its window is "
        f"assumed to be {known:,} tokens again. Its counts of the same text vary"
    )
