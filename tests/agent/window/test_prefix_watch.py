"""The watch over a session's requests: what it says of beginnings that change and caches that are not read."""

import io
import json
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.budget.prefix import Breakpoints
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import CacheBroken, PrefixDrifted, PrefixRenewed
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Assistant, Text, ToolOutput, Usage, User
from ebbtide.agent.prompt.build import Prompt, PromptSection
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.window.prefix_watch import PrefixWatch

FACTS = ModelFacts("anthropic", "claude-opus-5-5", 1_000_000, 128_000)
TOOLS = (ToolSpec("echo", "Says it again.", {"type": "object"}),)
GO, REPLY, OUTPUT = User((Text("go"),)), Assistant((Text("ok"),)), User((ToolOutput("c", "x"),))
WRITTEN = Usage(input=10, cache_write=40_000)


class Watched:
    """A watch with a clock of its own."""

    def __init__(self) -> None:
        self.time = 0.0
        self.events: list[Event] = []
        self.lines = io.StringIO()
        self.watch = PrefixWatch(self.events.append, DebugLog(echo=self.lines, now=lambda: 0.0), lambda: self.time)

    def send(self, *messages: User | Assistant, usage: Usage = WRITTEN, **other: object) -> None:
        request = Request("system", messages, TOOLS, 100, "s")
        self.watch.record_request(replace(request, **other), FACTS)  # type: ignore[arg-type]  # a test names the fields
        self.watch.record_reply(usage)


def test_a_conversation_that_grows_is_nothing_to_speak_of() -> None:
    watched = Watched()
    watched.send(GO)
    watched.send(GO, REPLY, OUTPUT, usage=Usage(input=10, cache_read=40_000, cache_write=100))
    watched.send(GO, REPLY, OUTPUT, REPLY, User((Text("more"),)), usage=Usage(input=10, cache_read=40_100))
    assert watched.events == []
    assert watched.lines.getvalue() == ""


STEP = (GO, REPLY, OUTPUT)


@pytest.mark.parametrize(
    ("messages", "later", "how", "expected"),
    [
        # Providers leave out what was thought in the turn before.
        ((GO, REPLY, User((Text("next"),))), 1.0, {"usage": Usage(input=20_000, cache_read=20_000)}, []),
        ((GO, REPLY, GO), 301.0, {"usage": Usage(input=40_000)}, [CacheBroken("ttl expired", 40_000, 0)]),
        (STEP, 1.0, {"usage": Usage(input=40_000)}, [CacheBroken("unknown", 40_000, 0)]),
        (
            STEP, 1.0, {"usage": Usage(input=40_000), "tools": ()},
            [PrefixDrifted("tools"), CacheBroken("tools changed", 40_000, 0)],
        ),
    ],
    ids=["the first reply of a turn reads less", "a cache outlives its time", "nothing is read", "tools change"],
)  # fmt: skip
def test_what_a_second_request_shows_is_told(
    messages: tuple[User | Assistant, ...], later: float, how: dict[str, Any], expected: list[Event]
) -> None:
    watched = Watched()
    watched.send(GO)
    watched.time = later
    watched.send(*messages, **how)
    assert watched.events == expected


def test_a_cache_that_is_kept_alive_is_read_later_and_runs_out_later() -> None:
    watched = Watched()
    watched.send(GO)
    watched.time = 270.0
    watched.watch.record_renewal()
    watched.time = 560.0
    last = watched.watch.renewable_request(FACTS)
    assert last is not None
    assert (last.idle_seconds, last.cache_age_seconds, last.renewal_count, last.cached_tokens) == (
        560.0,
        290.0,
        1,
        40_000,
    )
    assert not watched.watch.is_cache_cold(FACTS)
    watched.time = 571.0
    assert (watched.watch.renewable_request(FACTS), watched.watch.is_cache_cold(FACTS)) == (None, True)
    watched.send(GO, REPLY, GO, usage=Usage(input=40_000))
    assert watched.events == [CacheBroken("ttl expired", 40_000, 0)]
    again = watched.watch.renewable_request(FACTS)
    assert again is not None
    assert again.renewal_count == 0


def test_a_beginning_that_changes_unannounced_is_told_with_its_place() -> None:
    watched = Watched()
    watched.send(GO, REPLY, OUTPUT)
    watched.send(GO, REPLY, User((ToolOutput("c", "masked"),)), REPLY, OUTPUT, usage=Usage(input=9))
    assert watched.events == [PrefixDrifted("message 3"), CacheBroken("unknown", 40_000, 0)]
    records = [json.loads(line) for line in watched.lines.getvalue().splitlines()]
    assert [{name: value for name, value in line.items() if name != "at"} for line in records] == [
        {"topic": "context/prefix-drift", "where": "message 3", "model": FACTS.id},
        {
            "topic": "context/cache-break", "cause": "unknown",
            "expectedTokens": 40_000, "readTokens": 0, "model": FACTS.id,
        },
    ]  # fmt: skip


def test_a_rewrite_that_is_announced_is_neither_drift_nor_break() -> None:
    watched = Watched()
    watched.send(GO, REPLY, OUTPUT)
    watched.watch.allow_rewrite()
    watched.send(OUTPUT, usage=Usage(input=9))
    assert watched.events == []
    assert watched.watch.rewrite_count == 1


def test_a_rewrite_may_change_neither_system_text_nor_tools() -> None:
    for name, value in (("system", "other"), ("tools", ())):
        watched = Watched()
        watched.send(GO, REPLY, OUTPUT)
        watched.watch.allow_rewrite()
        watched.send(OUTPUT, usage=Usage(), **{name: value})
        assert watched.events == [PrefixDrifted(name)]


def test_a_mask_may_change_nothing_before_the_first_masked_output() -> None:
    masked = User((ToolOutput("c", "Ran: x"),))
    for unchanged, other, where in (
        (2, GO, None),
        (2, User((Text("gone"),)), "message 1"),
        (0, User((Text("gone"),)), None),
    ):
        watched = Watched()
        watched.send(GO, REPLY, OUTPUT, REPLY, OUTPUT)
        watched.watch.allow_rewrite(unchanged)
        watched.send(other, REPLY, masked, REPLY, OUTPUT, usage=Usage())
        assert watched.events == ([PrefixDrifted(where)] if where else [])


def test_of_two_rewrites_the_one_that_keeps_less_counts() -> None:
    watched = Watched()
    watched.send(GO, REPLY, OUTPUT)
    watched.watch.allow_rewrite(2)
    watched.watch.allow_rewrite(0)
    watched.send(User((Text("summary"),)), OUTPUT, usage=Usage())
    assert watched.events == []


def again(watched: Watched, *sections: PromptSection) -> Watched:
    """The watch after a new start of the program."""
    begun = Watched()
    begun.watch = PrefixWatch(begun.events.append, now=lambda: 0.0, sections=sections, resumed_mark=watched.watch.mark)
    return begun


def test_a_session_that_goes_on_unchanged_is_nothing_to_speak_of() -> None:
    before = Watched()
    before.send(GO)
    after = again(before)
    after.send(GO, REPLY, GO)
    assert after.events == []


def test_what_a_new_start_has_changed_is_told_once_and_is_no_drift() -> None:
    before = Watched()
    before.watch = PrefixWatch(sections=(PromptSection("base", "b", True), PromptSection("project", "p", True)))
    before.send(GO, REPLY, OUTPUT)
    after = again(before, PromptSection("base", "b", True), PromptSection("project", "new", True))
    after.send(OUTPUT, system="other", tools=(), effort="high", usage=Usage())
    after.send(OUTPUT, REPLY, OUTPUT, system="other", tools=(), effort="high", usage=Usage())
    assert after.events == [PrefixRenewed(("settings", "system (instruction files)", "tools", "messages"))]


def test_messages_that_a_rewrite_has_changed_before_the_first_request_are_expected() -> None:
    before = Watched()
    before.send(GO, REPLY, OUTPUT)
    after = again(before)
    after.watch.allow_rewrite()
    assert after.watch.mark is not None
    assert after.watch.mark.count == 0
    after.send(OUTPUT, usage=Usage())
    assert after.events == []


def test_a_reply_without_a_count_says_nothing() -> None:
    watched = Watched()
    watched.send(GO)
    watched.send(GO, REPLY, OUTPUT, usage=Usage())
    watched.send(GO, REPLY, OUTPUT, usage=Usage(input=100, cache_read=39_000))
    assert watched.events == []


def test_a_provider_that_never_reads_from_a_cache_is_known_after_three_chances() -> None:
    """A first request, a small one and one behind a rewrite are none; one token that is read shows a cache."""
    watched, fresh = Watched(), Usage(input=40_000)
    watched.send(GO, usage=fresh)
    watched.send(GO, REPLY, OUTPUT, usage=Usage(input=900))
    watched.watch.allow_rewrite()
    found = []
    for _ in range(4):
        watched.send(OUTPUT, usage=fresh)
        found.append(watched.watch.is_uncached)
    assert found == [False, False, False, True]
    watched.send(OUTPUT, usage=Usage(input=10, cache_read=40_000))
    watched.send(OUTPUT, usage=fresh)
    assert (watched.watch.is_uncached, watched.watch.miss_count) == (False, None)


def test_a_session_that_goes_on_knows_that_its_provider_has_no_cache_and_another_model_may_have_one() -> None:
    watched = Watched()
    for _ in range(4):
        watched.send(GO, usage=Usage(input=40_000))
    mark = watched.watch.mark
    assert mark is not None
    watch = PrefixWatch(resumed_mark=replace(mark, misses=watched.watch.miss_count))
    assert watch.is_uncached
    request = Request("system", (GO,), TOOLS, 100, "s")
    watch.record_request(request, FACTS)
    watch.record_reply(Usage(input=40_000))
    assert watch.is_uncached
    watch.allow_rewrite()
    watch.record_request(request, replace(FACTS, name="other"))
    watch.record_reply(Usage(input=40_000))
    assert not watch.is_uncached


def test_breakpoints_follow_what_was_sent() -> None:
    watched = Watched()
    watch, system = watched.watch, "word " * 20_000
    prompt = Prompt(system, (GO, REPLY, OUTPUT), 10)
    assert watch.plan_cache_breakpoints(prompt, TOOLS, FACTS) == Breakpoints((10, len(system)), (3,))
    watched.send(GO, REPLY, OUTPUT)
    longer = replace(prompt, messages=(GO, REPLY, OUTPUT, REPLY, OUTPUT))
    assert watch.plan_cache_breakpoints(longer, TOOLS, FACTS) == Breakpoints((10, len(system)), (3, 5))
    watch.allow_rewrite()
    assert watch.plan_cache_breakpoints(longer, TOOLS, FACTS) == Breakpoints((10, len(system)), (5,))
    assert watch.plan_cache_breakpoints(replace(prompt, system="short"), TOOLS, FACTS) == Breakpoints()
