"""What acts make of a view and what they cost, over arbitrary conversations."""

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.prices import UnitPrices
from ebbtide.agent.compaction.edit_cost import (
    EditPricing,
    ViewEditPlan,
    first_change,
    invalidated_cache_tokens,
    sent_indices,
)
from ebbtide.agent.compaction.plan import apply_compaction, plan_at
from ebbtide.agent.compaction.room import conversation_tokens
from ebbtide.agent.compaction.view_edits import (
    EditRequest,
    Refusal,
    cut_after,
    item_key,
    plan_tool_deferral,
    plan_view_edit,
    with_item_summary,
)
from ebbtide.agent.events.view import Act
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, Summary, Text, ToolCall, ToolOutput, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.tokens.estimate import estimate_message
from ebbtide.agent.view.items import pin_items, proportional_shares, view_items
from ebbtide.agent.view.visible import visible_messages
from ebbtide.tools.process.state import ProgramState
from tests.agent.test_pure_context import is_valid
from tests.agent.view.test_pins import pinned_texts, steered
from tests.kit.conversations import steps

INSTRUCTIONS = Instructions("base")
PRICES = UnitPrices(0.1, 1.25, 5.0)
ON_ITEMS: list[Act] = [act for act in get_args(Act) if act not in ("defer", "offer")]

DONE = ProgramState("exit code 0", 0)


def terms_of(conversation: Conversation, **changes: object) -> EditPricing:
    usual = EditPricing(estimate_message, conversation_tokens(conversation) + 1_000, 1_000, 200_000, PRICES)
    return replace(usual, **changes)  # type: ignore[arg-type]  # fields of terms


@st.composite
def wishes(draw: st.DrawFn) -> tuple[Conversation, EditRequest]:
    """A conversation, and something to be done to a part of it."""
    conversation = draw(steered())
    long = draw(st.integers(0, 3))
    for number in range(long):
        conversation = conversation.plus(*long_step(90 + number, draw(st.integers(10, 3_000))))
    conversation = conversation.plus(*draw(st.lists(st.just(pasted(4_000)), max_size=1)))
    conversation = conversation.plus(*draw(steps(80)))
    items = view_items(conversation, estimate_message)
    key = draw(st.sampled_from([item.key for item in items]))
    return conversation, EditRequest(draw(st.sampled_from(ON_ITEMS)), key)


def long_step(number: int, size: int = 2_000) -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", "bash", {"command": f"run {number}"})
    text = "\n".join(f"line {line} of {number}" for line in range(size)) + "\nexit code 0"
    return Assistant((call,), "m/a"), User((ToolOutput(f"c{number}", text, program=DONE),))


def pasted(size: int) -> User:
    return User((Text("please read this\n" + "word " * size),))


def answer(text: str = "done") -> Assistant:
    return Assistant((Text(text),), "m/a")


LONG = Conversation(
    (User((Text("look"),)), *long_step(1), *long_step(2), answer(), pasted(3_000), *long_step(3, 20), answer())
)


@given(wishes())
def test_an_act_keeps_steps_calls_and_what_was_said(drawn: tuple[Conversation, EditRequest]) -> None:
    conversation, wish = drawn
    plan = plan_view_edit(wish, conversation, terms_of(conversation))
    if isinstance(plan, Refusal):
        assert plan.reason
        return
    after = plan.edited_conversation
    assert after.messages == conversation.messages
    assert is_valid(visible_messages(after))
    for original, visible in zip(conversation.messages, visible_messages(after), strict=True):
        if isinstance(original, Assistant):
            assert visible is original
        else:
            assert isinstance(visible, User)
            assert [output.call_id for output in visible.outputs] == [output.call_id for output in original.outputs]
    if wish.act not in ("pin", "unpin"):
        assert pinned_texts(after) == pinned_texts(conversation)


@given(wishes())
def test_a_request_shrinks_by_what_the_plan_says(drawn: tuple[Conversation, EditRequest]) -> None:
    conversation, wish = drawn
    plan = plan_view_edit(wish, conversation, terms_of(conversation))
    if isinstance(plan, Refusal) or plan.asks_model:
        return
    assert conversation_tokens(conversation) - conversation_tokens(plan.edited_conversation) == plan.freed_tokens
    assert plan.is_rewrite == (wish.act not in ("pin", "unpin"))
    assert plan.freed_tokens > 0 or not plan.is_rewrite


@given(wishes())
def test_what_is_said_to_stay_stays(drawn: tuple[Conversation, EditRequest]) -> None:
    """The beginning that a provider has cached is what the plan says."""
    conversation, wish = drawn
    plan = plan_view_edit(wish, conversation, terms_of(conversation))
    if isinstance(plan, Refusal) or plan.asks_model:
        return
    before = build_prompt(conversation, INSTRUCTIONS).messages
    after = build_prompt(plan.edited_conversation, INSTRUCTIONS).messages
    assert before[: plan.unchanged_message_count] == after[: plan.unchanged_message_count]
    if plan.is_rewrite:
        assert before[plan.unchanged_message_count] != after[plan.unchanged_message_count]


@given(wishes())
def test_a_price_is_what_is_written_again_and_nothing_where_nothing_is_cached(
    drawn: tuple[Conversation, EditRequest],
) -> None:
    conversation, wish = drawn
    terms = terms_of(conversation)
    plan, cold = (plan_view_edit(wish, conversation, given) for given in (terms, replace(terms, is_cache_cold=True)))
    if isinstance(plan, Refusal) or isinstance(cold, Refusal):
        assert plan == cold
        return
    if not plan.asks_model:
        assert plan.cost == pytest.approx((PRICES.write - PRICES.read) * plan.cache_write_tokens)
        assert cold.cost == 0
        assert 0 <= plan.cache_write_tokens <= conversation_tokens(plan.edited_conversation)
    assert plan.saving_per_request == pytest.approx(PRICES.read * plan.freed_tokens)
    after = plan.break_even_requests
    if after:
        assert after * plan.saving_per_request >= plan.cost > (after - 1) * plan.saving_per_request
    rewritten = plan_view_edit(wish, conversation, replace(terms, cached_message_count=plan.unchanged_message_count))
    if not plan.asks_model:
        assert isinstance(rewritten, ViewEditPlan)
        assert rewritten.cost == 0


@given(wishes(), st.booleans())
def test_what_is_taken_back_before_the_next_request_costs_nothing(
    drawn: tuple[Conversation, EditRequest], is_sent: bool
) -> None:
    conversation, wish = drawn
    plan = plan_view_edit(wish, conversation, terms_of(conversation))
    if isinstance(plan, Refusal) or plan.asks_model:
        return
    back = terms_of(plan.edited_conversation, cached_message_count=None if is_sent else plan.unchanged_message_count)
    behind = invalidated_cache_tokens(plan.edited_conversation, conversation, back)
    assert behind == 0 if not is_sent else 0 <= behind <= conversation_tokens(conversation)
    assert first_change(plan.edited_conversation, conversation)[0] == plan.unchanged_message_count


@given(wishes())
def test_a_summary_of_all_before_cuts_between_steps(drawn: tuple[Conversation, EditRequest]) -> None:
    conversation, wish = drawn
    plan = plan_view_edit(replace(wish, act="summarise_before"), conversation, terms_of(conversation))
    if isinstance(plan, Refusal):
        return
    assert plan.asks_model
    cut = plan_at(conversation, plan.cut)
    assert is_valid(cut.covered_messages)
    assert is_valid(cut.tail_messages)
    assert cut.covered_messages
    assert cut.tail_messages


@given(steered(), st.integers(0, 100_000))
def test_items_are_all_there_is_and_together_what_was_counted(conversation: Conversation, whole: int) -> None:
    items = view_items(conversation, estimate_message, whole)
    assert sum(item.tokens for item in items) == (whole if items else 0)
    assert all(item.tokens >= 0 for item in items)
    alone = view_items(conversation, estimate_message)
    frames = 12 * (len(conversation.messages) + 4 * len(alone))
    assert (
        abs(sum(item.tokens for item in alone) - conversation_tokens(replace(conversation, summary=Summary())))
        <= frames
    )
    assert {item.key for item in alone if item.is_pinned} <= conversation.pinned


@given(st.lists(st.integers(0, 10**6)), st.integers(0, 10**7))
def test_shares_are_whole_and_in_proportion(weights: list[int], whole: int) -> None:
    shares = proportional_shares(weights, whole)
    assert len(shares) == len(weights)
    assert not weights or sum(shares) == whole
    if sum(weights):
        assert all(abs(s - w * whole / sum(weights)) <= 1 for s, w in zip(shares, weights, strict=True))


@given(steered())
def test_the_places_of_messages_are_those_of_the_prompt(conversation: Conversation) -> None:
    places = sent_indices(conversation)
    sent = build_prompt(conversation, INSTRUCTIONS).messages
    for index, message in enumerate(visible_messages(conversation)):
        parts = sent[places[index]].parts
        assert all(part in parts for part in message.parts)


def act(name: Act, key: str, conversation: Conversation = LONG, **changes: object) -> ViewEditPlan | Refusal:
    return plan_view_edit(EditRequest(name, key), conversation, terms_of(conversation, **changes))


def why(name: Act, key: str, conversation: Conversation = LONG, **changes: object) -> str:
    plan = act(name, key, conversation, **changes)
    assert isinstance(plan, Refusal)
    return plan.reason


def done(name: Act, key: str, conversation: Conversation = LONG) -> Conversation:
    plan = act(name, key, conversation)
    assert isinstance(plan, ViewEditPlan), plan
    return plan.edited_conversation


def test_an_evicted_output_is_a_line_and_an_evicted_message_says_what_it_was() -> None:
    lines = visible_messages(done("evict", "m6", done("evict", "r1")))
    assert isinstance(lines[2], User)
    assert lines[2].outputs[0].text == "Ran: run 1 – exit 0 [recall:r1]"
    assert isinstance(lines[6], User)
    assert lines[6].text.startswith("[User message of 15,017 characters, beginning: please read this word word")
    assert item_key(lines[6].text.rpartition("[recall:")[2].removesuffix("]]"), LONG) == "m6"


def test_an_offloaded_output_shows_its_ends() -> None:
    visible = visible_messages(done("offload", "r1"))[2]
    assert isinstance(visible, User)
    text = visible.outputs[0].text
    assert text.startswith("[Tool result stored — ")
    assert 'ref_id="r1"' in text
    assert len(text) < 2_600


def test_acts_that_make_no_sense_say_so() -> None:
    pinned, masked = done("pin", "r1"), done("evict", "r1")
    assert "already pinned" in why("pin", "r1", pinned)
    assert "not pinned" in why("unpin", "r1")
    assert "unpin it first" in why("evict", "r1", pinned)
    assert "unpin it first" in why("offload", "r1", pinned)
    assert "`/bring r1` first" in why("pin", "r1", masked)
    assert "`r1` is already a single line" in why("evict", "r1", masked)
    assert "not shown in full" in why("offload", "r1", done("offload", "r1"))
    assert "be hardly shorter" in why("offload", "r3")
    assert "stays with its step" in why("evict", "m5")
    assert "be hardly shorter" in why("evict", "m0")
    assert "not in view" in why("evict", "r77")
    assert "not in view" in why("evict", "")
    assert "newest step" in why("summarise_before", "m9")
    assert "no text to pin" in why("pin", "m1")
    assert "for tools" in why("defer", "r1")
    open_one = LONG.plus(pasted(2_000))
    assert "not answered yet" in why("evict", "m10", open_one)


def test_the_messages_after_a_summary_are_priced_as_the_model_sees_them() -> None:
    def rewritten(conversation: Conversation) -> int:
        plan = plan_view_edit(EditRequest("summarise_before", "m0"), conversation, terms_of(conversation))
        assert isinstance(plan, ViewEditPlan)
        return plan.cache_write_tokens

    conversation = Conversation((pasted(3_000), answer(), pasted(50), *LONG.messages[1:]))
    masked = plan_view_edit(EditRequest("evict", "r1"), conversation, terms_of(conversation))
    assert isinstance(masked, ViewEditPlan)
    assert rewritten(conversation) - rewritten(masked.edited_conversation) > 10_000


def test_what_is_pinned_may_take_no_more_than_a_compaction_can_live_with() -> None:
    assert "with `r1` pins would take" in why("pin", "r1", effective_tokens=12_000)
    assert isinstance(act("pin", "r1", effective_tokens=40_000), ViewEditPlan)
    assert "and there is room for 0 beside" in why("pin", "r1", effective_tokens=100)


def test_a_pin_outlives_its_step_and_may_be_evicted_when_it_is_none_any_more() -> None:
    plan = plan_at(done("pin", "m6", done("pin", "r1")), 8)
    after = apply_compaction(plan, None, CompactionCaps(ledger=900))
    assert [(item.key, item.ref, item.kind, item.is_pinned) for item in pin_items(after, estimate_message)] == [
        ("r1", "r1", "pin", True),
        ("m6", after.summary.pinned[-1].ref, "pin", True),
    ]
    assert "unpin it first" in why("evict", "r1", after)
    freed = done("evict", "r1", done("unpin", "r1", after))
    assert [one.key for one in freed.summary.pinned] == ["m6"]


def test_what_was_brought_back_can_leave_again() -> None:
    brought = LONG.plus(User((Note("Here it is:\n" + "line\n" * 2_000, kind="brought", name="r1"),)), answer())
    visible = visible_messages(done("evict", "m10", brought))[10]
    assert visible == User((Note("[What was brought back has left the view again [recall:r1]]"),))
    (preview,) = visible_messages(done("offload", "m10", brought))[10].parts
    assert isinstance(preview, Note)
    assert preview.text.endswith('Use the "read_result" tool with ref_id="r1" to read specific portions.')
    plan = act("summarise", "m10", brought)
    assert isinstance(plan, ViewEditPlan)
    assert plan.name == "r1"
    noted = LONG.plus(User((Note("the branch is now main " * 40),)), answer())
    assert "no reference" in why("evict", "m10", noted)


def test_a_model_sums_an_item_up_for_a_price() -> None:
    plan = act("summarise", "r1")
    assert isinstance(plan, ViewEditPlan)
    assert plan.asks_model
    assert plan.edited_conversation == LONG
    visible = visible_messages(with_item_summary(plan, "nothing but lines"))[2]
    assert isinstance(visible, User)
    assert visible.outputs[0].text.startswith("nothing but lines\n[A summary of r1")
    assert "as short as its summary" in why("summarise", "r3")


def test_tools_that_are_kept_out_change_the_whole_beginning() -> None:
    terms = terms_of(LONG)
    plan = plan_tool_deferral("defer", "forge", frozenset({"mcp__forge__a", "mcp__forge__b"}), LONG, terms, 900, 300)
    assert plan.edited_conversation.excluded_tools == {"mcp__forge__a", "mcp__forge__b"}
    assert (plan.freed_tokens, plan.cache_write_tokens, plan.unchanged_message_count) == (
        600,
        terms.used_tokens - 600,
        0,
    )
    back = plan_tool_deferral(
        "offer", "forge", plan.edited_conversation.excluded_tools, plan.edited_conversation, terms, 300, 900
    )
    assert back.edited_conversation.excluded_tools == frozenset()
    assert back.freed_tokens == -600
    assert back.break_even_requests is None


def test_a_message_is_known_by_its_reference_also_when_it_was_said_twice() -> None:
    twice = LONG.plus(pasted(3_000), answer())
    ref = view_items(twice, estimate_message)[-2].ref
    assert item_key(ref, twice) == "m10"
    assert item_key(ref[:8], twice) == "m10"
    assert item_key("[recall:r1]", twice) == "r1"
    evicted = done("evict", "m6", twice)
    assert visible_messages(evicted)[10] is twice.messages[10]


@pytest.mark.parametrize(("index", "cut"), [(0, 1), (1, 3), (2, 3), (5, 6), (6, 7), (8, 9), (9, None)])
def test_the_tail_begins_with_the_next_step(index: int, cut: int | None) -> None:
    assert cut_after(LONG, index) == cut
