"""Detects from token counts whether a server silently truncated a request.

A server whose window is smaller than stated may silently drop the beginning of requests. Its counts then stay the same
or fall while requests grow. So the growth of its counts is compared with a lower bound that holds for any tokenizer:
half the words of the new text. A server never falls below that bound merely because its counts are off by a constant
factor, or because it does not count tools. A server that counts only uncached text is recognised because its counts
grow and shrink with the new text.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.messages import Assistant, Conversation, Message, Note, Text, ToolCall, ToolOutput, User
from ebbtide.agent.tokens.incremental import memoized
from ebbtide.tools.lazy import dataclass, regex

TruncationFinding: TypeAlias = Literal["whole", "fresh", "doubtful", "truncated"]
"""`whole`: as far as we can tell, the server read everything. `fresh`: it counted only new text. `doubtful`: its count
is impossibly low, which is tolerated once. `truncated`: it dropped the beginning."""

MIN_WINDOW_TOKENS = 1000
"""Smallest window that any server has, in tokens. A lower count does not reveal the window."""
MAX_SUSPICIOUS_COUNTS = 2
"""Number of impossibly low counts after which the server is assumed to truncate."""
_MIN_CHARS_PER_WORD = 5
"""Text counts as at most one word per this many characters, so that the lower bound also holds for servers that
estimate tokens from characters."""
_MIN_OPENING_SHARE = 0.1
"""Minimum size of the content before the messages, as a share of its estimated size. It holds even for servers that do
not count tools."""
_TOLERANCE_TOKENS, _TOLERANCE_SHARE = 100, 0.02
"""Tolerance for low counts: a number of tokens, plus a share of the count."""
_MIN_GROWTH_TOKENS = 200
"""Growth of a request, in tokens, that must be visible in its count."""
_MIN_EQUAL_COUNTS = 3
"""Number of equal counts in a row that prove a full window, if the requests grew."""
_MAX_STORED_COUNTS = 8
_TRUNCATION_RATIO = 1.25
"""Ratio of expected to counted tokens above which a request might have been truncated."""
_WORD = regex(r"[a-zA-Z0-9]{1,16}|[^\W_]{1,4}")


@dataclass(frozen=True, slots=True)
class CountedRequest:
    """A request and the server's count of it."""

    min_tokens: int
    """Lower bound for the tokens of its messages under any tokenizer: their words. System prompt and tools are not
    included."""
    new_tokens: tuple[int, int]
    """Estimated tokens that are new to the server: without and with the reply, which the server wrote itself."""
    counted: int
    expected: int
    """Estimated tokens of the whole request."""
    opening_tokens: int = 0
    """Estimated tokens of the content before the messages."""
    is_first: bool = False
    """Whether this is the first request of the session, so that the server cannot have read its messages before."""
    exceeds_window: bool = False
    """Whether the request exceeds the window according to our estimate, but not according to the server's count."""


@dataclass(frozen=True, slots=True)
class CountRecord:
    """History of the server's counts in a session."""

    height: float = 0.0
    """Largest amount by which a count exceeds half the words of its request, since the last rewrite."""
    most: int = 0
    """Largest complete count since the last rewrite."""
    counts: tuple[int, ...] = ()
    """The latest counts, oldest first."""
    short: tuple[tuple[int, int], ...] = ()
    """Pairs of an impossibly low count and the expected count, collected since the suspicion was last cleared."""
    low: tuple[tuple[int, ...], ...] = ()
    """The latest incomplete counts, each with the size of the new text at that time, with and without the reply."""
    is_fresh: bool = False
    """Whether the server has counted only new text at least once."""
    constant: int = 0
    """The token count that the server reports for any request; 0 if it is not known to be constant."""
    standing: tuple[int, int, int] = (0, 0, 0)
    """The last count since the last rewrite, the expected size when the server first reported it, and how many times in
    a row it was reported."""
    low_height: float | None = None
    """Amount by which the last impossibly low count exceeds half the words of its request; None if there was no such
    count since the last rewrite."""

    @property
    def window(self) -> int:
        """The window of a server that truncates: its largest recent count. If the server drops whole messages, that
        count might be too low, so the result is at least half of the smallest request that was truncated."""
        min_sent = min(expected for _, expected in self.short)
        max_short_count = max(counted for counted, _ in self.short)
        max_count = max((counted for counted in self.counts if counted <= min_sent), default=max_short_count)
        return max(max_count, min_sent // 2) if max_count > 1.1 * max_short_count else max_count

    def after_rewrite(self) -> "CountRecord":
        """Drop the values that new counts are compared with, since requests are shorter after a rewrite."""
        return replace(self, height=0.0, most=0, standing=(0, 0, 0), low_height=None)

    def with_earlier_count(self, min_tokens: int, counted: int) -> "CountRecord":
        """Add a request that was counted in an earlier run of the program."""
        return replace(self, height=max(counted - min_tokens / 2, 0.0), most=counted, standing=(counted, counted, 1))


def assess_count(record: CountRecord, request: CountedRequest) -> tuple[TruncationFinding, CountRecord]:
    """Compare a count with the record. Return the finding and the updated record."""
    updated, excess = _with_count(record, request), request.counted - request.min_tokens / 2
    shortfall = record.height - excess
    is_fresh = _may_count_only_new_text(record, request)
    is_stuck = not is_fresh and _is_count_stuck(updated, request, shortfall)
    is_low = shortfall > _TOLERANCE_TOKENS + _TOLERANCE_SHARE * request.counted
    if not (is_stuck or request.exceeds_window or is_fresh or is_low):
        return "whole", _with_complete_count(updated, request, excess)
    updated = replace(
        updated, low=(*record.low, (request.counted, *reversed(request.new_tokens)))[-_MAX_STORED_COUNTS:]
    )
    if is_fresh and not _ignores_new_text(record, request):
        return "fresh", replace(updated, is_fresh=True, most=max(record.most, request.counted))
    updated = replace(
        updated, short=(*record.short, (request.counted, request.expected))[-_MAX_STORED_COUNTS:], low_height=excess
    )
    # A full window's count cannot grow. If the count grows, a relay might have switched to a server with another
    # tokenizer.
    is_higher = record.low_height is not None and excess >= record.low_height
    is_repeated = len(updated.short) >= MAX_SUSPICIOUS_COUNTS and not is_higher
    is_proven = request.is_first or is_stuck or is_repeated or _are_low_counts_equal(updated)
    is_window = request.counted >= MIN_WINDOW_TOKENS and updated.constant != request.counted
    return ("truncated" if is_proven and is_window else "doubtful"), updated


def _with_count(record: CountRecord, request: CountedRequest) -> CountRecord:
    counts = (*record.counts, request.counted)[-_MAX_STORED_COUNTS:]
    _, expected, repeat_count = record.standing if record.standing[0] == request.counted else (0, request.expected, 0)
    standing = request.counted, expected, repeat_count + 1
    return replace(record, counts=counts, constant=_constant_count(record.constant, counts, request), standing=standing)


def _is_count_stuck(record: CountRecord, request: CountedRequest, shortfall: float) -> bool:
    """Whether the latest counts are identical although the requests grew. The lower bound alone would detect this much
    later, especially in languages such as Chinese."""
    _, expected, repeat_count = record.standing
    return repeat_count >= _MIN_EQUAL_COUNTS and max(request.expected - expected, 2 * shortfall) >= _MIN_GROWTH_TOKENS


def _constant_count(previous_constant: int, counts: tuple[int, ...], request: CountedRequest) -> int:
    """Return the constant token count that a relay or test server reports for every request; 0 if none is known.

    A count is assumed to be constant if it is smaller than the content before the messages. It is also assumed to be
    constant if the first request was about as large as the count, since nothing can have been dropped then. It must not
    be a count that Ollama reports for a full window: the window size or half of it, plus up to three (ollama/ollama
    issues 3839, 10368, 17427 and 17889).
    """
    if len(set(counts)) > 1:
        return 0
    is_full_window = (request.counted + 1) % 256 <= 4
    is_too_small = request.counted < request.opening_tokens
    was_about_as_large = len(counts) == 1 and request.expected < _TRUNCATION_RATIO * request.counted
    is_constant = not request.exceeds_window and not is_full_window and (is_too_small or was_about_as_large)
    return request.counted if is_constant or previous_constant == request.counted else 0


def _are_low_counts_equal(record: CountRecord) -> bool:
    """Whether the latest three low counts differ by at most one. Complete counts in between are ignored, because every
    other request might go to a server with a larger window."""
    last_counts = [low[0] for low in record.low[-3:]]
    return len(last_counts) == 3 and max(last_counts) - min(last_counts) <= 1


def _with_complete_count(record: CountRecord, request: CountedRequest, excess: float) -> CountRecord:
    """Record a complete count. It clears the suspicion if it is larger than the requests that raised it, since a full
    window cannot grow."""
    short = () if record.short and request.counted > min(expected for _, expected in record.short) else record.short
    return replace(record, height=max(record.height, excess), most=max(record.most, request.counted), short=short)


def _may_count_only_new_text(record: CountRecord, request: CountedRequest) -> bool:
    """Whether a low count can be explained by a server that counts only new text. The count must differ from the last
    complete one, and from the size of new text plus the content before the messages, which is what a server that
    truncates would read. The server might have cached the system prompt before the session started. After a rewrite, a
    server that has counted this way before can report anything between the new text and the full size."""
    is_max_count = not record.is_fresh and abs(record.most - request.counted) <= 1
    if request.exceeds_window or is_max_count:
        return False
    if record.is_fresh and record.most == 0:
        return request.counted < 0.85 * request.expected
    if request.is_first and request.counted < _MIN_OPENING_SHARE * request.opening_tokens:
        return True
    min_new_tokens, max_new_tokens = request.new_tokens
    max_count = min(
        1.35 * max_new_tokens + 300,
        1.1 * max_new_tokens + (200 if request.is_first else max(request.opening_tokens / 2, 200)),
    )
    # If the first count is only a little low, the estimate is too high.
    max_share = 0.5 if request.is_first else 0.75
    return 0.7 * min_new_tokens - 100 <= request.counted <= min(max_count, max_share * request.expected)


def _ignores_new_text(record: CountRecord, request: CountedRequest) -> bool:
    """Whether the count does not depend on the new text. That is the case if a similar count was reported before with
    far more or far less new text, or if the same count was reported twice with different new text."""
    similar = [low for low in record.low if abs(low[0] - request.counted) <= 0.1 * request.counted]
    equal = [
        low for low in similar if abs(low[0] - request.counted) <= 1 and not _has_similar_growth(low, request, 1.01)
    ]
    return len(equal) >= 2 or any(not _has_similar_growth(low, request, 1.6) for low in similar)


def _has_similar_growth(earlier_count: tuple[int, ...], request: CountedRequest, max_ratio: float) -> bool:
    """Whether an earlier request had about as much new text. The sizes are compared both with and without the reply,
    because a server that counts new text counts it in one of these two ways."""
    pairs = zip(
        earlier_count[1:], reversed(request.new_tokens), strict=False
    )  # an earlier version stored only one size
    return any(1 / max_ratio < max(earlier_size, 1) / max(new_size, 1) < max_ratio for earlier_size, new_size in pairs)


def min_tokens(messages: Iterable[Message]) -> int:
    """Return the least number of tokens that any tokenizer could count for the messages."""
    return sum(map(_min_message_tokens, messages))


def has_no_reply(conversation: Conversation) -> bool:
    """Whether no request of the session has been answered yet."""
    has_summary = conversation.summary.retain or conversation.summary.summary or conversation.summary.ledger
    return not has_summary and not any(isinstance(message, Assistant) for message in conversation.messages)


def messages_since_reply(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the user messages after the newest reply."""
    start = next((index for index in range(len(messages), 0, -1) if isinstance(messages[index - 1], Assistant)), 0)
    return tuple(message for message in messages[start:] if isinstance(message, User))


def _part_texts(message: Message) -> Iterable[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | Note(text=text) | ToolOutput(text=text):
                yield text
            case ToolCall(source=source):
                yield source
            case _:
                pass  # servers may drop reasoning; the size of images is unknown


@memoized
def _min_message_tokens(message: Message) -> int:
    return sum(min(len(_WORD.findall(text)), len(text) // _MIN_CHARS_PER_WORD) for text in _part_texts(message))


def truncation_notice(counted: int, expected: int) -> str:
    """Format the notice that a server truncates requests, with advice."""
    return (
        f"the server read only {counted:,} of about {expected:,} tokens: it drops the beginning of "
        "requests. From now on requests are kept within what it reads. Set `agent.context_window` to the window that "
        "the server really has, or configure a larger one there (`num_ctx` of Ollama, `--ctx-size` of llama.cpp)"
    )


def window_restored_notice(counted: int, window_tokens: int) -> str:
    """Format the notice that withdraws an earlier truncation notice."""
    return (
        f"the server has now read {counted:,} tokens, more than its counts suggested: its window is "
        f"assumed to be {window_tokens:,} tokens again. Its counts of the same text vary"
    )
