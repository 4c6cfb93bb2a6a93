"""Whether a server has read all that it was sent: servers that leave something out, and those that only count badly."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ebbtide.agent.budget.server_truncation import (
    CountedRequest,
    CountRecord,
    TruncationFinding,
    assess_count,
    has_no_reply,
    messages_since_reply,
    min_tokens,
)
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Message,
    Reasoning,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.tokens.estimate import estimate_messages, estimate_text
from tests.kit.conversations import conversations

LINES = {
    "prose": "the quick brown fox jumps over a lazy dog near the river bank ",
    "code": "    def measure(self, prompt: Prompt) -> int:  # what_it_takes\n        return self.x[0] + 1\n",
    "table": "2024-01-02,17.25,abc,998877,0.5\n",
    "short": "a b 1 2 x y\n",
    "seq": "12345\n12346\n12347\n",
    "blanks": "x                                                                              y\n",
    "ruler": "=" * 78 + "\n",
    "Chinese": "上下文窗口绝不会溢出，也不会忘记任何内容。\n",
    "Russian": "окно контекста никогда не переполняется \n",
}
sizes = st.lists(st.tuples(st.sampled_from(sorted(LINES)), st.integers(20, 60_000)), min_size=2, max_size=25)


@lru_cache(64)
def count_words(text: str) -> int:
    """Each text is counted by the server and by who judges it."""
    return sum(1 + len(word) // 5 for word in text.replace(",", " , ").split()) if text else 0


TOKENIZERS: dict[str, Callable[[str], float]] = {
    "characters": lambda text: len(text) / 4,
    "fine": lambda text: len(text) / 2.5,
    "classes": estimate_text,
    "words": count_words,
}


@dataclass(frozen=True)
class Server:
    """How one counts: `opening` tokens of system text and tools are in front of all."""

    tokenizer: str = "characters"
    factor: float = 1.0
    opening: int = 4000
    window: int = 10_000_000
    """What it reads of a request at most."""

    def tokens(self, text: str) -> float:
        return TOKENIZERS[self.tokenizer](text)

    def counts(self, texts: list[str]) -> list[int]:
        """What it counts of requests that each add a text to the one before."""
        sums = accumulate(self.tokens(text) for text in texts)
        return [int(min(self.opening + n, self.window) * self.factor) for n in sums]


def findings(
    texts: list[str], counts: list[int], tokens: Callable[[str], float] = estimate_text, opening: int = 1500
) -> list[TruncationFinding]:
    """What is found of each request, as long as nothing is found to be left out. `tokens`: what was learned of the
    server's way to count."""
    record, found, so_far, expected = CountRecord(), list[TruncationFinding](), 0, opening
    for number, (text, counted) in enumerate(zip(texts, counts, strict=True)):
        so_far += min_tokens([User((Text(text),))])
        new = round(tokens(text))
        expected += new
        sent = CountedRequest(so_far, (new, new + 100), counted, expected, opening, not number)
        finding, record = assess_count(record, sent)
        found.append(finding)
        if finding == "truncated":
            break
    return found


def written(parts: list[tuple[str, int]]) -> list[str]:
    return [(LINES[kind] * (size // len(LINES[kind]) + 1))[:size] for kind, size in parts]


@given(
    sizes,
    st.sampled_from(sorted(TOKENIZERS)),
    st.floats(0.6, 1.4),
    st.sampled_from([0, 500, 4000, 20_000]),
    st.floats(0.7, 1.5),
)
def test_who_counts_badly_leaves_nothing_out(
    parts: list[tuple[str, int]], tokenizer: str, factor: float, opening: int, guess: float
) -> None:
    """By a factor, without the tools, and both together; nor does it where the estimate is off."""
    texts = written(parts)
    server = Server(tokenizer, factor, opening)
    found = findings(texts, server.counts(texts), lambda text: guess * server.tokens(text) * factor, opening)
    assert "truncated" not in found


@given(
    st.sampled_from(["prose", "code", "table", "seq", "Chinese", "Russian"]),
    st.sampled_from(sorted(TOKENIZERS)),
    st.floats(0.6, 1.4),
    st.sampled_from([2000, 4000, 8000, 32_000]),
    st.floats(0.2, 3.0),
    st.floats(0.8, 1.25),
)
def test_who_leaves_something_out_is_found_by_the_third_time(
    kind: str, tokenizer: str, factor: float, window: int, growth: float, guess: float
) -> None:
    """Requests grow by a part of the window or by more than all of it."""
    server = Server(tokenizer, factor, 1500, window)
    size = growth * window * len(LINES[kind]) / max(server.tokens(LINES[kind]), 1)
    texts = written([(kind, int(size * (1, 0.4, 1.6)[n % 3])) for n in range(30)])
    counts = server.counts(texts)
    first = (round(server.opening * factor) + guess * server.tokens(texts[0]) * factor) / counts[0]
    assume(len(set(counts)) > 1 or first >= 1.25)  # else it looks as a server does that reports one number for all
    together = ("".join(texts[: n + 1]) for n in range(len(texts)))
    whole = len(list(takewhile(lambda text: server.opening + server.tokens(text) <= window, together)))
    # What grows by little needs some more until it is more than the tolerance hides. Where as much is new as the
    # window holds, only what is new tells it from a server that counts nothing else.
    is_plain = min_tokens([User((Text(texts[0]),))]) > 1500 and not 0.4 < growth < 2
    found = findings(texts, counts, lambda text: guess * server.tokens(text) * factor, round(server.opening * factor))
    assert found[-1] == "truncated"
    assert len(found) <= whole + (3 if is_plain else 8) + (whole == 0)


def test_equal_counts_tell_a_full_window() -> None:
    texts = written([("prose", 9000), *[("prose", 800)] * 5])
    assert findings(texts, [3863, *[4096] * 5])[-1] == "truncated"


@pytest.mark.parametrize("backends", ["aabbbbbb", "abababab", "aababbab"])
def test_a_relay_that_switches_to_a_server_with_another_tokenizer_leaves_nothing_out(backends: str) -> None:
    texts = written([("prose", 30_000), *[("code", 6000), ("prose", 9000)] * 4][: len(backends)])
    servers = {"a": Server(), "b": Server(factor=0.8)}
    counts = [servers[name].counts(texts)[number] for number, name in enumerate(backends)]
    found = findings(texts, counts, Server().tokens, 4000)
    assert ("doubtful" in found, "truncated" in found) == (True, False)


@pytest.mark.parametrize("every", [2, 3])
def test_who_leaves_something_out_now_and_then_is_found_by_the_third_time(every: int) -> None:
    """Some requests go to a server with a smaller window."""
    texts = written([("prose", 8000), ("code", 5000), ("prose", 6500)] * 8)
    whole = Server().counts(texts)
    counts = [min(n, 9000) if number % every == 0 else n for number, n in enumerate(whole)]
    left_out = [number for number, n in enumerate(counts) if n < whole[number]]
    found = findings(texts, counts, Server().tokens, 4000)
    assert found[-1] == "truncated"
    assert len(found) - 1 in left_out[:3]


def test_the_window_is_the_most_that_was_counted_of_late() -> None:
    assert CountRecord(counts=(5000, 7750, 7700, 7600), short=((7700, 12_000), (7600, 15_000))).window == 7750
    assert CountRecord(counts=(2047,), short=((2047, 5000),)).window == 2047


def test_half_of_what_was_too_large_is_tried_where_whole_messages_are_left_out() -> None:
    assert CountRecord(counts=(2300, 2360, 3200, 2360), short=((2360, 17_000), (2360, 18_000))).window == 8500
    assert CountRecord(counts=(8100, 5200, 5300), short=((5200, 9100), (5300, 12_000))).window == 8100


@given(st.lists(st.integers(200, 60_000), min_size=2, max_size=20))
def test_who_counts_only_what_is_new_leaves_nothing_out(growth: list[int]) -> None:
    texts = written([("prose", 30_000), *(("code", size) for size in growth)])
    counts = [9000, *(round(estimate_text(text) * 0.9) + 40 for text in texts[1:])]
    found = findings(texts, counts)
    assert "truncated" not in found


def test_who_counts_only_the_newest_output_leaves_nothing_out_however_often_that_is_the_same() -> None:
    low, new = (1168, 1733, 1662), (1662, 1690)
    record = CountRecord(most=2386, height=1400, low=(low, low), is_fresh=True)
    assert assess_count(record, CountedRequest(6000, new, 1168, 14_000, 2900))[0] == "fresh"
    assert assess_count(CountRecord(), CountedRequest(500, (980, 980), 210, 3800, 2850, is_first=True))[0] == "fresh"


def test_one_low_count_is_forgotten_when_a_later_one_is_beyond_doubt() -> None:
    texts = written([("prose", 12_000)] * 8)
    full = Server().counts(texts)
    found = findings(texts, [*full[:3], 9500, *full[4:6], 9500, full[7]], Server().tokens, 4000)
    assert (found.count("doubtful"), "truncated" in found) == (2, False)


def test_after_a_rewrite_nothing_is_compared_with_what_was_before() -> None:
    record = CountRecord(height=20_000, most=30_000, short=((29_000, 33_000),))
    assert assess_count(record.after_rewrite(), CountedRequest(2000, (100, 200), 6000, 7000))[0] == "whole"
    assert assess_count(record, CountedRequest(22_000, (100, 200), 6000, 30_000))[0] == "truncated"


def test_a_session_that_goes_on_is_compared_with_its_last_request() -> None:
    known = CountRecord().with_earlier_count(10_000, 20_000)
    finding, record = assess_count(known, CountedRequest(14_000, (9000, 9000), 19_500, 29_000))
    assert finding == "doubtful"
    assert assess_count(record, CountedRequest(18_000, (9000, 9000), 19_510, 38_000))[0] == "truncated"


def test_a_first_request_of_which_less_was_read_than_its_words_is_found_at_once() -> None:
    assert (
        assess_count(CountRecord(), CountedRequest(30_000, (60_000, 60_000), 7750, 65_000, is_first=True))[0]
        == "truncated"
    )
    assert assess_count(CountRecord(), CountedRequest(30_000, (60_000, 60_000), 7750, 65_000))[0] == "doubtful"
    assert (
        assess_count(CountRecord(), CountedRequest(30_000, (60_000, 60_000), 400, 65_000, is_first=True))[0]
        == "doubtful"
    )


@pytest.mark.parametrize("counted", [2048, 1026, 2050, 16_386, 16_387, 32_770])
def test_what_ollama_counts_of_every_cut_prompt_is_found_by_the_third_time(counted: int) -> None:
    """What users have reported: ollama/ollama issues 3839, 10368, 17427 and 17889, ollama-python 271, little-coder
    128."""
    texts = written([("prose", 6 * counted), ("code", 3 * counted), ("prose", 9 * counted)] * 4)
    found = findings(texts, [counted] * 12)
    assert found[-1] == "truncated"
    assert len(found) <= 3


@pytest.mark.parametrize("reported", [709, 1000, 1500, 3000, 5157])
def test_the_same_usage_for_every_request_is_no_window(reported: int) -> None:
    """A relay that reports a constant ended the session with "room for 709"."""
    texts = written([("prose", 200), ("prose", 9000), ("code", 5000), *[("prose", 30_000), ("code", 5000)] * 5])
    assert "truncated" not in findings(texts, [reported] * 13, opening=2300)


@given(conversations())
def test_the_least_is_never_more_than_the_estimate(conversation: Conversation) -> None:
    assert 0 <= min_tokens(conversation.messages) <= estimate_messages(conversation.messages)


@pytest.mark.parametrize(
    ("conversation", "new"),
    [
        (Conversation((User((Text("hi"),)),)), True),
        (Conversation((User((Text("hi"),)), Assistant((Text("ho"),)), User((Text("and"),)))), False),
        (Conversation((User((Text("hi"),)),), Summary("", "earlier")), False),
    ],
)
def test_a_session_is_new_until_something_was_answered(conversation: Conversation, new: bool) -> None:
    assert has_no_reply(conversation) is new


def test_what_is_new_to_the_server_is_what_was_said_since_its_reply() -> None:
    step: tuple[Message, ...] = (
        User((Text("one two"),)),
        Assistant((Reasoning("never sent back", {}), ToolCall("1", "read", {}, '{"path": "a b"}'))),
        User((ToolOutput("1", "three four"),)),
        User((Text("five six"),)),
    )
    assert messages_since_reply(step) == step[2:]
    assert messages_since_reply(()) == ()
    assert min_tokens(step) == 1 + 3 + 2 + 1  # no more than one word for five characters
