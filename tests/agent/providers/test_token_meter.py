"""The measure of a session: what it makes of usages that providers report, sensible or not."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.events.session import Event
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Image,
    ProviderItem,
    Reasoning,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    User,
)
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.providers.usage import carried_usage
from ebbtide.agent.providers.usage_check import UsageVerdict
from ebbtide.agent.tokens.estimate import (
    Estimator,
    TextCounts,
    TokenCounter,
    count_messages,
    count_text,
    count_tools,
    decode_estimator,
    encode_estimator,
    update_estimator,
)
from ebbtide.agent.tool_specs import ToolGroup, ToolSpec
from tests.kit.conversations import conversations

WINDOW = Window(200_000, 8000)
INSTRUCTIONS = Instructions("Be brief. " * 200, "here", "rules " * 100)
TOOLS = (ToolSpec("echo", "Says it again. " * 30, {"type": "object"}),)
ASKED = Conversation((User((Text("fix it " * 300),)),))
ANSWER = Assistant((Text("done"),), "p/m")
OUTPUTS = User((ToolOutput("1", "some output " * 100),))


def steps_taken(meter: TokenMeter, conversation: Conversation, *usages: Usage) -> tuple[Conversation, list[Event]]:
    """The conversation after as many steps with calls, and what was told."""
    events: list[Event] = []
    for usage in usages:
        budget = meter.measure(build_prompt(conversation, INSTRUCTIONS), conversation, TOOLS, WINDOW)
        conversation = meter.add_reply(conversation, Reply(ANSWER, usage, "calls"), budget, events.append)
        conversation = conversation.plus(OUTPUTS)
    return conversation, events


def measured(meter: TokenMeter, conversation: Conversation) -> int:
    prompt = build_prompt(conversation, INSTRUCTIONS)
    return meter.measure(prompt, conversation, TOOLS, WINDOW, {"instructions": INSTRUCTIONS.project}).used


@given(conversations())
def test_before_the_first_usage_everything_is_estimated(conversation: Conversation) -> None:
    meter, first = TokenMeter(), Estimator()
    prompt = build_prompt(conversation, INSTRUCTIONS)
    budget = meter.measure(prompt, conversation, TOOLS, WINDOW, {"instructions": INSTRUCTIONS.project})
    assert budget.system + budget.instructions == pytest.approx(first.estimate(count_text(INSTRUCTIONS.text)), abs=1)
    assert budget.instructions == first.estimate(count_text(INSTRUCTIONS.project))
    assert budget.tools == first.estimate(count_tools(TOOLS))
    assert budget.history == first.estimate(count_messages(conversation.messages))
    assert budget == meter.measure(prompt, conversation, TOOLS, WINDOW, {"instructions": INSTRUCTIONS.project})


@given(conversations(), conversations())
def test_counting_what_was_added_is_counting_all(conversation: Conversation, more: Conversation) -> None:
    meter = TokenMeter()
    longer = replace(conversation, messages=conversation.messages + more.messages)
    for view in (conversation, longer, conversation, more):
        assert measured(meter, view) == measured(TokenMeter(), view)


def test_definitions_that_were_found_are_counted_once_as_the_session_grows() -> None:
    meter, tools = (
        TokenMeter(),
        (ToolSpec("far", "Reaches far. " * 200, {"type": "object"}, deferred_group=ToolGroup("g", "far")),),
    )
    conversation = ASKED
    for message in (Assistant((ProviderItem({"type": "found"}, ("far",)),), "p/m"), OUTPUTS, ANSWER, OUTPUTS):
        conversation = conversation.plus(message)
        prompt = build_prompt(conversation, INSTRUCTIONS)
        fresh = TokenMeter().measure(prompt, conversation, tools, WINDOW)
        assert meter.measure(prompt, conversation, tools, WINDOW) == fresh
        assert fresh.history > Estimator().estimate(count_messages(conversation.messages)) + 400
        meter.schedule_counter(
            TokenCounter(tokenize=len)
        )  # counts with another ruler, and takes nothing over from the last
        assert meter.measure(prompt, conversation, tools, WINDOW).history > 2 * fresh.history
        meter.schedule_counter(TokenCounter())


def test_what_was_counted_is_exact_and_the_rest_is_learned() -> None:
    meter = TokenMeter()
    conversation, events = steps_taken(meter, ASKED, Usage(input=3000, output=50))
    tail = meter.estimator.estimate(count_messages([OUTPUTS]) + TextCounts(replies=1))
    assert measured(meter, conversation) == 3050 + tail
    conversation, _ = steps_taken(meter, conversation, *(Usage(input=3000 + 1050 * n, output=50) for n in range(1, 6)))
    assert measured(meter, conversation) == pytest.approx(3000 + 1050 * 6, abs=60)
    assert (events, meter.estimator.sample_count) == ([], 6)


@pytest.mark.parametrize(
    ("usage", "reading"),
    [
        (Usage(), "missing"),
        (Usage(output=50), "missing"),
        (Usage(input=-5, cache_read=4000), "implausible"),
        (Usage(input=3000, output=-1), "implausible"),
        (Usage(input=400_000), "implausible"),
        (Usage(input=20), "implausible"),
        (Usage(input=2047), "doubtful"),
        (Usage(input=500), "fresh"),
        (Usage(input=3400, output=10), "counted"),
        (Usage(cache_read=3000, cache_write=400, output=10), "counted"),
    ],
)
def test_a_usage_is_judged_before_it_is_believed(usage: Usage, reading: UsageVerdict) -> None:
    meter = TokenMeter()
    before, _ = steps_taken(meter, ASKED, Usage(input=3000, output=50))
    learned, used = meter.estimator, measured(meter, before)
    after, events = steps_taken(meter, before, usage)
    if reading == "counted":
        assert (after.anchor, events) == (usage, [])
        return
    assert (after.anchor, after.anchored, meter.estimator) == (before.anchor, before.anchored, learned)
    expected = {"missing": ["does not report"], "implausible": ["counts are ignored"], "fresh": [], "doubtful": []}[
        reading
    ]
    assert [text in str(event) for text, event in zip(expected, events, strict=True)] == [True] * len(expected)
    assert measured(meter, after) > used


def test_a_deferred_definition_takes_nothing_until_it_is_found() -> None:
    long = ToolSpec("mcp__desk__ask", "Asks at length. " * 50, {"type": "object"}, "mcp")
    group = ToolGroup("mcp__desk", "Tools of desk: ask, tell")
    deferred, grouped = replace(long, deferred_group=ToolGroup()), replace(long, deferred_group=group)

    def components(conversation: Conversation, *tools: ToolSpec) -> tuple[int, int]:
        budget = TokenMeter().measure(build_prompt(conversation, INSTRUCTIONS), conversation, tools, WINDOW)
        return budget.tools, budget.used - budget.tools

    nothing, asked = components(ASKED)
    assert (nothing, components(ASKED, deferred)) == (0, (0, asked))
    about = TokenMeter().estimate_definition(ToolSpec(group.name, group.description, {}))
    assert components(ASKED, grouped, replace(grouped, name="mcp__desk__tell")) == (about, asked)
    found = ASKED.plus(Assistant((ProviderItem({"type": "found"}, (long.name, "mcp__gone")),), "p/m"))
    bare = ASKED.plus(Assistant((ProviderItem({"type": "found"}),), "p/m"))
    (_, without), (_, with_definition) = components(bare, deferred), components(found, deferred)
    assert with_definition - without == pytest.approx(TokenMeter().estimate_definition(long), abs=1)


def test_counts_of_a_reply_with_searches_anchor_and_teach_nothing() -> None:
    """They may be of several readings of the request, each with all of it."""
    meter = TokenMeter()
    before, _ = steps_taken(meter, ASKED, Usage(input=3000, output=50))
    learned = meter.estimator
    found = ToolSpec("mcp__desk__ask", "Asks at length. " * 50, {"type": "object"}, "mcp", ToolGroup())
    budget = meter.measure(build_prompt(before, INSTRUCTIONS), before, (*TOOLS, found), WINDOW)
    reply = Reply(
        Assistant((ProviderItem({}, (found.name,)), Text("done")), "p/m"), Usage(6500, output=50), "end", pass_count=2
    )
    after = meter.add_reply(before, reply, budget, print)
    assert (after.anchor, after.anchored, meter.estimator) == (before.anchor, before.anchored, learned)
    unseen = (
        count_messages([OUTPUTS, reply.message])
        + count_tools([replace(found, deferred_group=None)])
        + TextCounts(replies=1)
    )
    later = meter.measure(build_prompt(after, INSTRUCTIONS), after, (*TOOLS, found), WINDOW)
    assert later.used == 3050 + learned.estimate(unseen)


def test_a_provider_that_never_reports_is_told_of_once() -> None:
    meter = TokenMeter()
    conversation, events = steps_taken(meter, ASKED, Usage(), Usage(), Usage())
    assert len(events) == 1
    assert measured(meter, conversation) == measured(TokenMeter(), conversation)


def test_a_server_that_leaves_something_out_is_named_once_and_teaches_its_window() -> None:
    meter = TokenMeter()
    conversation, events = steps_taken(meter, ASKED, Usage(3000), Usage(2048))
    assert (events, meter.take_actual_window(), conversation.anchor) == ([], None, Usage(3000))
    conversation, events = steps_taken(meter, conversation, Usage(2040))
    assert ["read only 2,040 of" in str(event) for event in events] == [True]
    assert (meter.take_actual_window(), meter.take_actual_window()) == (3000, None)
    assert (conversation.anchor, meter.estimator) == (None, Estimator())
    assert measured(meter, conversation) == meter.counters.projected_tokens() + meter.counters.tool_tokens
    _, events = steps_taken(meter, conversation, *[Usage(2040)] * 5)
    assert events == []


def test_a_request_larger_than_the_window_is_truncated_when_it_is_counted_as_smaller() -> None:
    for counted, window in ((1000, 1000), (1001, None)):
        meter, events = TokenMeter(), list[Event]()
        budget = meter.measure(build_prompt(ASKED, INSTRUCTIONS), ASKED, TOOLS, Window(1000, 100, 100))
        meter.add_reply(ASKED, Reply(ANSWER, Usage(counted), "end"), budget, events.append)
        assert (meter.take_actual_window(), len(events)) == (window, int(window is not None))


def test_a_count_that_sinks_after_a_user_message_may_be_reasoning_that_is_left_out() -> None:
    thought = Assistant((Reasoning("hm", {"type": "thinking"}), Text("done")), "p/m")
    conversation = Conversation((*ASKED.messages, thought), Summary(), Usage(3000, output=2000), 2)
    conversation = conversation.plus(User((Text("and now?"),)))
    meter = TokenMeter()
    budget = meter.measure(build_prompt(conversation, INSTRUCTIONS), conversation, TOOLS, WINDOW)
    reply = Reply(ANSWER, Usage(2500), "end")
    assert meter.add_reply(conversation, reply, budget, print).anchor == Usage(2500)
    assert meter.estimator == Estimator()


def test_the_count_of_another_model_is_compared_with_nothing() -> None:
    conversation = Conversation((*ASKED.messages, replace(ANSWER, model="p/other")), Summary(), Usage(6000), 2).plus(
        OUTPUTS
    )
    meter = TokenMeter()
    after, events = steps_taken(meter, conversation, Usage(3000))
    assert (after.anchor, events, meter.estimator) == (Usage(3000), [], Estimator())


def test_reasoning_is_anchored_only_when_it_is_sent_back() -> None:
    usage = Usage(input=100, output=900, reasoning=800)
    assert carried_usage(Reply(ANSWER, usage, "end")) == Usage(input=100, output=100)
    reply = Assistant((Reasoning("", {"type": "reasoning"}), Text("done")))
    assert carried_usage(Reply(reply, usage, "end")) == usage


def test_tool_definitions_are_what_the_first_request_leaves_for_them() -> None:
    meter = TokenMeter()
    conversation, _ = steps_taken(meter, ASKED, Usage(input=3000, output=50))
    budget = meter.measure(build_prompt(conversation, INSTRUCTIONS), conversation, TOOLS, WINDOW)
    sent = meter.estimator.estimate(count_text(INSTRUCTIONS.text)) + meter.estimator.estimate(
        count_messages(ASKED.messages)
    )
    assert budget.tools == pytest.approx(3000 - sent, abs=2)


def test_what_a_picture_takes_is_not_taken_for_tool_definitions() -> None:
    meter = TokenMeter()
    conversation, _ = steps_taken(meter, ASKED, Usage(input=3000, output=50))
    before = measured(meter, conversation), meter.tool_tokens
    seen = User((ToolOutput("2", "a picture", images=(Image("image/png", "AAAA"),)),))
    rewritten = replace(conversation.plus(ANSWER, seen), anchor=None, anchored=0)
    steps_taken(meter, rewritten, Usage(input=before[0] + 1_600, output=50))
    assert meter.tool_tokens == pytest.approx(before[1], rel=0.25)


def test_the_counters_follow_the_turn() -> None:
    meter = TokenMeter()
    meter.begin_turn(ASKED.messages[0])
    pending = meter.counters.pending_tokens
    conversation, _ = steps_taken(meter, ASKED, Usage(input=3000, output=50))
    assert pending == Estimator().estimate(count_messages(ASKED.messages))
    measured(meter, conversation)
    projected = meter.counters.projected_tokens()
    meter.end_turn(replace(conversation, anchored=len(conversation.messages)))
    assert projected + meter.counters.tool_tokens >= 3050
    assert (meter.counters.finished_turn_tokens, meter.counters.pending_tokens, meter.counters.new_tokens) == (
        3050,
        0,
        0,
    )
    assert meter.counters.is_schema_counted


def test_a_tokenizer_may_come_later() -> None:
    meter = TokenMeter()
    before = measured(meter, ASKED)
    meter.schedule_counter(TokenCounter(lambda text: float(len(text))))
    assert measured(meter, ASKED) > 2 * before


def test_a_tokenizer_that_comes_during_a_request_waits_for_the_next() -> None:
    plain, meter = TokenMeter(), TokenMeter()
    steps_taken(plain, ASKED, Usage(input=3000, output=50))
    budget = meter.measure(build_prompt(ASKED, INSTRUCTIONS), ASKED, TOOLS, WINDOW)
    meter.schedule_counter(TokenCounter(lambda text: float(len(text))))
    meter.add_reply(ASKED, Reply(ANSWER, Usage(input=3000, output=50), "calls"), budget, print)
    assert meter.estimator == plain.estimator


def test_what_is_not_there_yet_is_loaded_once() -> None:
    asked: list[TokenMeter] = []
    meter = TokenMeter(load_tokenizer=asked.append)
    meter.start_loading()
    meter.start_loading()
    assert asked == [meter]


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000)), max_size=12))
def test_what_was_learned_reads_back(samples: list[tuple[int, int]]) -> None:
    estimator = Estimator()
    for letters, reported in samples:
        estimator = update_estimator(estimator, TextCounts(letters=letters, items=1), reported, 50_000)
    assert decode_estimator(encode_estimator(estimator)) == estimator


@pytest.mark.parametrize(
    "text",
    [None, "", "{}", "[]", "nonsense", '{"weights": [1], "doubt": [], "samples": 1, "errors": []}',
     encode_estimator(Estimator()).replace("0.33", "1e99"), encode_estimator(Estimator()).replace("0.33", "NaN")],
)  # fmt: skip
def test_what_cannot_be_read_is_learned_anew(text: str | None) -> None:
    assert decode_estimator(text) == Estimator()


def test_an_estimator_is_plain_json() -> None:
    assert set(json.loads(TokenMeter().serialise_estimates())) == {"weights", "doubt", "samples", "errors"}


def test_calls_and_outputs_of_a_step_are_the_unseen_tail() -> None:
    meter = TokenMeter()
    calls = Assistant((ToolCall("1", "read", {"path": "a"}), ToolCall("2", "read", {"path": "b"})), "p/m")
    budget = meter.measure(build_prompt(ASKED, INSTRUCTIONS), ASKED, TOOLS, WINDOW)
    conversation = meter.add_reply(ASKED, Reply(calls, Usage(3000, output=40), "calls"), budget, print)
    outputs = User((ToolOutput("1", "x" * 900), ToolOutput("2", "y" * 900)))
    budget = meter.measure(build_prompt(conversation, INSTRUCTIONS), conversation.plus(outputs), TOOLS, WINDOW)
    assert budget.used - budget.pending == 3040
    assert budget.pending == meter.estimator.estimate(TextCounts(letters=1800, items=2, replies=1))
