"""What leaves the view and what stays, over arbitrary conversations."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.request_budget import DEFAULT_BUFFER_TOKENS, ContextBudget, Window
from ebbtide.agent.compaction.plan import (
    CompactionLimits,
    apply_compaction,
    can_save_a_tenth,
    caps_that_save_a_tenth,
    compute_limits,
    plan_at,
    plan_compaction,
    saves_a_tenth,
)
from ebbtide.agent.compaction.receipt import build_receipt
from ebbtide.agent.compaction.room import CompactionRoom, conversation_tokens, measure_room
from ebbtide.agent.compaction.strategies import (
    STRATEGIES_BY_CAUSE,
    Strategy,
    drop_older_turns,
    drop_unseen_step,
    keep_last_message,
    run_strategy,
)
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.compaction.transcript import output_reference_lines, render_transcript, split_into_chunks
from ebbtide.agent.events.view import ReceiptItem
from ebbtide.agent.eviction.carrying_costs import mask_outputs
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import (
    USER_CALL_PREFIX,
    Assistant,
    Conversation,
    Image,
    Message,
    Note,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    User,
)
from ebbtide.agent.prompt.attachments import compacted_request_parts
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.tokens.estimate import estimate_message, estimate_messages, estimate_text
from ebbtide.agent.view.message_text import steering_message
from ebbtide.agent.view.visible import (
    EMPTY_SUMMARY_TEXT,
    SUMMARY_HEADING,
    SUMMARY_PREAMBLE,
    first_unseen_index,
    turn_starts,
    visible_messages,
)
from ebbtide.tools.process.state import ProgramState
from tests.agent.test_pure_context import is_valid
from tests.kit.conversations import conversations, output_ids, steps

INSTRUCTIONS = Instructions("base")
CAPS = CompactionCaps(tail=200, ledger=400, retain=50, summary=100, protected_output_tokens=100)
RUNGS = sorted({strategy for ladder in STRATEGIES_BY_CAUSE.values() for strategy in ladder})

DONE = ProgramState("exit code 0", 0)


def user(text: str) -> User:
    return User((Text(text),))


def step(number: int, size: int = 400, name: str = "bash") -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", name, {"command": f"run {number}"})
    return Assistant((call,), "m/a"), User((ToolOutput(f"c{number}", "x " * size + "\nexit code 0", program=DONE),))


def answer(text: str) -> Assistant:
    return Assistant((Text(text),), "m/a")


LONG = Conversation((user("first, never touch b.py"), *step(1), answer("done"), user("second"), *step(2), *step(3)))


@given(conversations(), st.integers(0, 400), st.sampled_from([0, 1]))
def test_a_plan_cuts_between_steps_and_parts_nothing(conversation: Conversation, tail: int, least: int) -> None:
    plan = plan_compaction(conversation, tail, min_steps=least)
    if plan is None:
        return
    assert plan.covered_messages + plan.tail_messages == conversation.messages
    assert plan.covered_messages
    assert plan.tail_messages
    assert is_valid(plan.covered_messages)
    assert is_valid(plan.tail_messages)
    assert plan.tail_view.outputs_before == len(output_ids(plan.covered_messages))


@given(conversations(), st.integers(0, 400))
def test_the_tail_holds_the_last_finished_step_and_of_earlier_turns_only_whole_ones(
    conversation: Conversation, tail: int
) -> None:
    plan = plan_compaction(conversation, tail)
    if plan is None:
        return
    if any(isinstance(message, Assistant) for message in conversation.messages):
        assert any(isinstance(message, Assistant) for message in plan.tail_messages)
    cut = len(plan.covered_messages)
    starts = turn_starts(conversation.messages)
    last_step = max(i for i, m in enumerate(conversation.messages) if isinstance(m, Assistant))
    assert cut in starts or cut >= starts[-1] or cut == last_step


def test_the_tail_is_as_many_whole_steps_as_fit() -> None:
    size = sum(map(estimate_message, step(3)))
    assert [len(plan.tail_messages) for room in (0, size, 2 * size) if (plan := plan_compaction(LONG, room))] == [
        2,
        2,
        4,
    ]
    assert plan_compaction(LONG, 10_000, max_turns=2) is None
    many = LONG.plus(answer("done"), user("third"), *step(4))
    assert [len(p.tail_messages) for n in (1, 2) if (p := plan_compaction(many, 10_000, max_turns=n))] == [3, 9]
    assert [len(p.tail_messages) for n in (1, 2) if (p := plan_compaction(many, 300, max_turns=n))] == [2, 2]
    waiting = LONG.plus(answer("done"), user("third"))
    assert [len(p.tail_messages) for n in (0, 1) if (p := plan_compaction(waiting, 20, min_steps=n))] == [1, 2]


@given(conversations(), st.integers(0, 200))
def test_an_open_request_stays_byte_for_byte(conversation: Conversation, tail: int) -> None:
    conversation = conversation.plus(*step(99))
    plan = plan_compaction(conversation, tail)
    if plan is None:
        return
    start = turn_starts(conversation.messages)[-1]
    asked = conversation.messages[start]
    after = apply_compaction(plan, Draft("", "they talked"), CAPS)
    parts = [part for message in build_prompt(after, INSTRUCTIONS).messages for part in message.parts]
    assert [part for part in asked.parts if part in parts] == list(asked.parts)


def test_an_answered_request_is_left_to_the_summary() -> None:
    plan = plan_compaction(Conversation((user("please"), *step(1), answer("here it is"))), 0)
    assert plan is not None
    assert plan.request == User(())
    assert plan.ledger.goals[0].endswith(": please")


def test_a_request_stays_open_while_the_reply_to_it_is_paused() -> None:
    paused = replace(answer("so far"), is_paused=True)
    plan = plan_compaction(Conversation((user("go"), *step(1), *step(2), paused)), 0)
    assert plan is not None
    assert (plan.request, plan.tail_messages) == (user("go"), (paused,))


def test_the_request_of_an_earlier_compaction_and_its_pictures_stay_until_they_are_answered() -> None:
    asked = User((Text("look"), Image("image/png", "aGk=")))
    request = User(compacted_request_parts(asked))
    first = keep_last_message(Conversation((asked, *step(1), *step(2))))
    assert first is not None
    assert (first.messages, first.summary.request, first.outputs_before) == (step(2), request, 1)
    second = plan_compaction(first.plus(*step(3)), 0)
    assert second is not None
    assert (second.request, second.tail_view.outputs_before) == (request, 2)


def test_what_is_said_while_a_turn_runs_begins_none_and_stays_with_its_request() -> None:
    first, second = (steering_message(user(text)) for text in ("with tabs", "and tests"))
    conversation = Conversation((user("please"), *step(1), first, *step(2), second, *step(3)))
    assert turn_starts(conversation.messages) == [0]
    plan = plan_compaction(conversation, 0)
    assert plan is not None
    assert plan.request == User((*user("please").parts, *first.parts, *second.parts))
    later = plan_compaction(
        apply_compaction(plan, None, CAPS).plus(steering_message(user("in CSS")), *step(4), *step(5)), 0
    )
    assert later is not None
    assert later.request == User((*plan.request.parts, *steering_message(user("in CSS")).parts))


@given(conversations(), st.sampled_from(RUNGS), st.booleans())
def test_every_strategy_leaves_a_valid_view_and_loses_nothing(
    conversation: Conversation, strategy: Strategy, is_open: bool
) -> None:
    conversation = conversation.plus(*step(98), *(step(99)[:1] if is_open else ()))
    after = run_strategy(strategy, conversation, CAPS, CompactionLimits(CAPS, 1))
    if after is None:
        return
    left_out = len(conversation.messages) - len(after.messages)
    assert conversation.messages[left_out:] == after.messages
    assert after.outputs_before == conversation.outputs_before + len(output_ids(conversation.messages[:left_out]))
    assert after.masked <= frozenset(output_ids(after.messages))
    assert after.unanswered_calls == conversation.unanswered_calls
    if not is_open:
        assert is_valid(build_prompt(after, INSTRUCTIONS).messages)


@given(conversations(), st.integers(0, 2000))
def test_masking_changes_nothing_but_what_outputs_say(conversation: Conversation, protect: int) -> None:
    masked = mask_outputs(conversation, protect)
    assert masked.messages == conversation.messages
    assert conversation_tokens(masked) <= conversation_tokens(conversation)
    assert mask_outputs(masked, protect) == masked
    for before, after in zip(conversation.messages, visible_messages(masked), strict=True):
        if isinstance(before, User) and isinstance(after, User):
            assert [o.call_id for o in before.outputs] == [o.call_id for o in after.outputs]
            assert [p for p in before.parts if not isinstance(p, ToolOutput)] == [
                p for p in after.parts if not isinstance(p, ToolOutput)
            ]
        else:
            assert before == after


def test_the_last_step_and_the_newest_outputs_are_not_masked() -> None:
    whole = Conversation((user("go"), *step(1), *step(2), *step(3)), anchor=Usage(9), anchored=3)
    masked = [sorted(mask_outputs(whole, protect).masked) for protect in (0, 600, 10_000)]
    assert masked == [["c1", "c2"], ["c1"], []]
    assert mask_outputs(whole, 0).anchor is None
    assert mask_outputs(whole, 10_000) is whole
    assert [sorted(mask_outputs(whole, 0, newest).masked) for newest in (2, 4, 5)] == [["c1", "c2"], ["c1"], []]


@given(
    conversations(),
    st.integers(0, 50_000),
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.floats(1, 3),
    st.floats(0, 1),
)
def test_the_floor_is_found_or_named(
    conversation: Conversation, effective: int, system: int, tools: int, scale: float, spare: float
) -> None:
    deferrable = int(tools * spare)
    limits = compute_limits(
        conversation,
        CompactionCaps(),
        CompactionRoom(effective, system, tools, 0.95, scale, deferrable_tokens=deferrable),
    )
    assert limits.caps.tail >= 900
    assert limits.caps.ledger >= 900
    assert limits.deferred_tokens in (0, deferrable)
    if limits.deferred_tokens or limits.min_steps == 0:
        assert (limits.caps.tail, limits.caps.ledger) == (900, 900)
    if limits.min_steps == 0:
        assert limits.deferred_tokens == deferrable
    if limits.problem:
        assert (limits.min_steps, limits.deferred_tokens) == (0, deferrable)
        assert "most of it " in limits.problem


def test_the_floor_halves_tail_and_ledger_until_they_fit() -> None:
    conversation = Conversation((user("go"), *(m for n in range(40) for m in step(n, 400))))
    caps = [
        compute_limits(conversation, CompactionCaps(8000), CompactionRoom(size, 1000, 1000)).caps
        for size in (40_000, 18_000, 9_000)
    ]
    assert [(c.tail, c.ledger) for c in caps] == [(8000, 3600), (4000, 1800), (2000, 900)]
    assert compute_limits(conversation, CompactionCaps(), CompactionRoom(5000, 4000, 100)).problem.startswith(
        "a compacted conversation still takes"
    )
    assert (
        "the system prompt" in compute_limits(conversation, CompactionCaps(), CompactionRoom(5000, 4000, 100)).problem
    )


@given(conversations(), st.integers(0, 4_000), st.integers(0, 4_000), st.floats(1, 3), st.integers(2_000, 50_000))
def test_what_stands_before_the_messages_takes_what_it_takes_however_coarse_a_provider_counts_them(
    conversation: Conversation, system: int, tools: int, coarse: float, size: int
) -> None:
    counted = int(conversation_tokens(conversation) * coarse)
    room = measure_room(ContextBudget(Window(size, 100), system, tools=tools, history=counted), conversation, None)
    effective = size - 100 - DEFAULT_BUFFER_TOKENS
    if effective > 0:
        assert room.used_share(Conversation()) * effective == pytest.approx(system + tools)
        assert room.used_share(conversation) * effective == pytest.approx(system + tools + counted, abs=1)
        assert (
            room.max_message_tokens == 0
            or room.request_tokens(room.max_message_tokens) <= room.trigger_share * effective
        )


@given(conversations())
def test_dropping_halves_the_turns_until_one_is_left(conversation: Conversation) -> None:
    turns = len(turn_starts(conversation.messages))
    while (fewer := drop_older_turns(conversation, CAPS)) is not None:
        left = len(turn_starts(fewer.messages))
        assert left < turns
        assert left >= turns // 2
        conversation, turns = fewer, left
    assert turns <= 1 or turn_starts(conversation.messages)[1] > first_unseen_index(conversation.messages)


@given(conversations(), st.sampled_from(["drop_older_turns", "keep_last_message", "ledger"]))
def test_the_last_resorts_end(conversation: Conversation, strategy: Strategy) -> None:
    seen = 0
    while (after := run_strategy(strategy, conversation, CAPS, CompactionLimits(CAPS, 0))) is not None:
        assert len(after.messages) < len(conversation.messages)
        conversation, seen = after, seen + 1
    assert seen < 100


@given(conversations())
def test_a_second_compaction_keeps_the_facts_of_the_first(conversation: Conversation) -> None:
    conversation = Conversation((user("never touch b.py"), *step(90), *conversation.messages, user("go on"), *step(91)))
    plan = plan_compaction(conversation, 0)
    assert plan is not None
    once = apply_compaction(plan, None, CompactionCaps())
    again = plan_compaction(once.plus(answer("ok"), user("and now"), *step(92)), 0)
    assert again is not None
    assert set(plan.ledger.constraints) <= set(again.ledger.constraints)
    assert any("never touch b.py" in fact for fact in again.ledger.constraints)


def test_what_a_summary_leaves_out_is_added_word_for_word() -> None:
    plan = plan_compaction(LONG, 0)
    assert plan is not None
    summary = apply_compaction(plan, Draft("", "all is well"), replace(CAPS, ledger=0)).summary
    assert summary.summary.splitlines()[:2] == ["all is well", ""]
    assert "Not to be forgotten:" in summary.summary
    assert "first, never touch b.py" in summary.summary
    with_ledger = apply_compaction(plan, Draft("", "all is well"), CompactionCaps()).summary
    assert with_ledger.summary == "all is well"
    assert "first, never touch b.py" in with_ledger.ledger


def test_where_no_account_has_room_a_line_stands_before_the_reply_that_is_left() -> None:
    """Providers refuse a conversation that a reply opens."""
    conversation = Conversation((user("Read."), *step(1), *step(2), user("Go on.")))
    no_room = CompactionCaps(tail=0, ledger=0, retain=0, summary=0)
    view = run_strategy("ledger", conversation, no_room, CompactionLimits(no_room, 1))
    assert view is not None
    assert view.messages == (*step(2), user("Go on."))
    first, *rest = build_prompt(view, Instructions("base")).messages
    assert first == User((Text(SUMMARY_PREAMBLE), Text(f"{SUMMARY_HEADING}\n{EMPTY_SUMMARY_TEXT}")))
    assert [type(message) for message in rest] == [Assistant, User]


def test_documents_are_cut_to_their_caps() -> None:
    plan = plan_compaction(Conversation((user("go"), *step(1), *step(2))), 0)
    assert plan is not None
    summary = apply_compaction(plan, Draft("word\n" * 500, "word\n" * 500), CAPS).summary
    assert estimate_text(summary.retain) <= CAPS.retain
    assert estimate_text(summary.summary) <= CAPS.summary


def test_a_compaction_must_save_a_tenth() -> None:
    plan = plan_compaction(LONG, 0)
    assert plan is not None
    assert saves_a_tenth(LONG, apply_compaction(plan, Draft("", "short"), CAPS))
    huge = Draft("", "word " * 2000)
    assert not saves_a_tenth(LONG, apply_compaction(plan, huge, CompactionCaps(summary=100_000)))
    small = Conversation((user("go"), answer("word " * 500), user("on"), answer("word " * 9000)))
    last = plan_compaction(small, 0)
    assert last is not None
    assert (can_save_a_tenth(LONG, plan), can_save_a_tenth(small, last)) == (True, False)


@given(conversations(12), st.integers(0, 400), st.integers(1, 2000), st.integers(1, 2000))
def test_a_summary_within_the_caps_that_pay_saves_a_tenth(
    conversation: Conversation, tail: int, retain: int, summary: int
) -> None:
    caps = replace(CAPS, retain=retain, summary=summary)
    plan = plan_compaction(conversation, tail)
    paying = caps_that_save_a_tenth(conversation, plan, caps) if plan is not None else None
    if plan is None or paying is None:
        return
    assert (paying.retain <= retain, paying.summary <= summary) == (True, True)
    assert can_save_a_tenth(conversation, plan)
    longest = Draft("word " * 2000, "word " * 2000)
    assert saves_a_tenth(conversation, apply_compaction(plan, longest, paying))


def test_where_a_summary_would_be_longer_than_what_it_stands_for_there_are_no_caps() -> None:
    small = Conversation((user("go"), answer("done"), user("on"), *step(1, 10), answer("done")))
    plan, long = plan_compaction(small, 0), plan_compaction(LONG, 0)
    assert plan is not None
    assert long is not None
    assert caps_that_save_a_tenth(small, plan, CAPS) is None
    assert caps_that_save_a_tenth(LONG, long, CAPS) == CAPS


def test_a_receipt_names_what_was_summarised_masked_and_kept() -> None:
    after = run_strategy("ledger", LONG, CAPS, CompactionLimits(CAPS, 1))
    assert after is not None
    tokens = [sum(map(estimate_message, LONG.messages[start:end])) for start, end in ((0, 4), (4, 7))]
    assert build_receipt(LONG, after, ("ledger",)) == (
        ReceiptItem("you: first, never touch b.py (4 messages)", "dropped", tokens[0], GONE),
        ReceiptItem("you: second (3 messages)", "dropped", tokens[1], GONE),
        ReceiptItem("you: second", "kept", estimate_message(user("second")), "your request, unchanged"),
        ReceiptItem("step: bash", "kept", estimate_messages(LONG.messages[7:9]), "among the newest steps"),
    )
    masked = mask_outputs(LONG, 0)
    assert [(item.item, item.fate) for item in build_receipt(LONG, masked, ("mask",))][:2] == [
        ("Ran: run 1 – exit 0 [r1]", "masked"),
        ("Ran: run 2 – exit 0 [r2]", "masked"),
    ]


def test_a_receipt_counts_what_was_shown_as_the_provider_counts() -> None:
    masked = mask_outputs(LONG, 0)
    after = run_strategy("ledger", masked, CAPS, CompactionLimits(CAPS, 1))
    assert after is not None
    visible_size = sum(estimate_message(message) for message in visible_messages(masked)[:7])
    gone = [
        item.tokens for item in build_receipt(masked, after, ("ledger",), token_ratio=0.5) if item.fate == "dropped"
    ]
    assert sum(gone) in range(visible_size // 2 - 1, visible_size // 2 + 2)


GONE = "older steps; key facts kept"


@given(st.lists(st.text(max_size=200), max_size=20), st.integers(10, 100))
def test_chunks_hold_everything_and_are_small_enough(pieces: list[str], tokens: int) -> None:
    made = split_into_chunks(pieces, tokens)
    assert all(estimate_text(chunk) <= tokens for chunk in made)
    whole = "".join(made)
    at = 0
    for character in (c for piece in pieces for c in piece):
        at = whole.index(character, at) + 1


def test_after_several_compactions_the_ledger_names_each_command_by_its_own_output() -> None:
    conversation = Conversation((user("go"),))
    for number in range(1, 31):
        conversation = conversation.plus(*step(number))
        if number % 6 == 0:
            plan = plan_compaction(conversation, 0)
            assert plan is not None
            draft = Draft("", "much was done") if number % 12 == 0 else None
            conversation = apply_compaction(plan, draft, replace(CAPS, ledger=2000))
            named = re.findall(
                r"Ran: run (\d+) – exit 0 \[r(\d+)\]", conversation.summary.facts or conversation.summary.ledger
            )
            assert [int(ran) for ran, _ in named] == [int(ref) for _, ref in named] == list(range(1, number + 1))
            assert named[-1][1] in conversation.summary.ledger


def test_who_writes_a_summary_is_told_the_references_of_long_outputs() -> None:
    conversation = Conversation((user("go"), *step(1), *step(2, 2), *step(3)), outputs_before=40)
    plan = plan_compaction(conversation.plus(*step(4)), 0)
    assert plan is not None
    assert output_reference_lines(plan) == ("- [r41] Ran: run 1 – exit 0", "- [r43] Ran: run 3 – exit 0")
    assert output_reference_lines(plan, 20) == ("- [r43] Ran: run 3 – exit 0",)
    assert [piece for piece in render_transcript(plan, 10) if "[output r42, done]" in piece] == [
        "[output r42, done]\nx x \nexit code 0"
    ]


def test_a_transcript_shows_calls_and_clipped_outputs() -> None:
    conversation = Conversation((user("go"), *step(1, 4000), *step(2)), Summary(summary="before"))
    plan = plan_compaction(conversation, 0)
    assert plan is not None
    text = render_transcript(plan, 10)
    clipped = "[output r1, done]\nx x x x x \n[…]\nxit code 0"
    assert text == ("[earlier summary]\nbefore", "[the user said]\ngo", "[called bash] {'command': 'run 1'}", clipped)
    attached = User((Text("look"), Note("short"), Note("a line of a paste\n" * 40)))
    asked, came = render_transcript(plan_at(Conversation((attached, answer("done"))), 1), 10)
    assert (asked, came) == ("[the user said]\nlook", "[it came with]\na line of \n[…]\nf a paste\n")


@given(st.data())
def test_a_tail_may_begin_at_any_step_of_the_open_turn(data: st.DataObject) -> None:
    messages: list[Message] = [user("go")]
    for number in range(data.draw(st.integers(2, 6))):
        messages += [
            Assistant((*m.parts, ToolCall(f"n{number}", "read", {})), m.model) if isinstance(m, Assistant) else m
            for m in data.draw(steps(number, answered=False))
        ]
        last = messages[-1]
        assert isinstance(last, Assistant)
        messages.append(User(tuple(ToolOutput(call.id, "x" * 100) for call in last.calls)))
    plan = plan_compaction(Conversation(tuple(messages)), data.draw(st.integers(0, 300)))
    if plan is not None:
        assert plan.request == user("go")
        assert isinstance(plan.tail_messages[0], Assistant)


def test_a_step_that_is_named_stays_named_until_the_model_has_replied() -> None:
    named = drop_unseen_step(Conversation((user("go"), *step(1))))
    assert named is not None
    request = named.summary.request
    assert "[recall:r1]" in str(request)
    ran = (
        Assistant((ToolCall(f"{USER_CALL_PREFIX}2", "bash", {}),)),
        User((ToolOutput(f"{USER_CALL_PREFIX}2", "x " * 400),)),
    )
    later = named.plus(user("and this")).plus(ran[0]).plus(ran[1])
    last = keep_last_message(later)
    assert last is not None
    assert "[recall:r1]" in str(last.summary.request)
    replied = keep_last_message(named.plus(step(2)[0]).plus(step(2)[1]))
    assert replied is not None
    assert "[recall:r1]" not in str(replied.summary.request)
