from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent import messages
from ebbtide.agent.events.permissions import (
    CallDenied,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from ebbtide.agent.events.session import (
    CallDelta,
    CallsRead,
    ContextMeasured,
    Event,
    ModelSwitched,
    Noticed,
    ReasoningDelta,
    ReplyFinished,
    RetryScheduled,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from ebbtide.agent.events.view import CompactionStarted, ContextCompacted
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Image,
    Note,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    User,
)
from ebbtide.agent.prompt.attachments import file_note, image_note
from ebbtide.tui.view.blocks import (
    AnswerText,
    Call,
    Failure,
    Notice,
    ReasoningBlock,
    Retry,
    SessionView,
    SummaryBlock,
    UserText,
)
from ebbtide.tui.view.receipts import Compaction, RunningCompaction
from ebbtide.tui.view.reduce import MAX_LIVE_OUTPUT_CHARS, apply_event
from ebbtide.tui.view.resumed import build_resumed_view

BEGIN = (TurnStarted("s", "m", "go"), StepStarted(1))
BUSY = SessionView(turn_blocks=(UserText("go"),), is_busy=True, activity="thinking", model="m", step_start_index=1)


def after(*events: Event) -> SessionView:
    return reduce(apply_event, (*BEGIN, *events), SessionView())


def blocks_after(*events: Event) -> tuple[object, ...]:
    return after(*events).blocks[1:]


def test_a_turn_begins_with_what_the_user_said() -> None:
    assert after() == BUSY


def test_another_turn_leaves_the_past_alone() -> None:
    first = after(TextDelta("hello"), TurnFinished("answered", "hello"))
    second = apply_event(first, TurnStarted("s", "m", "more"))
    assert (second.past_blocks, second.turn_blocks) == (first.blocks, (UserText("more"),))


def test_a_streamed_answer_grows_in_one_block_and_settles() -> None:
    assert blocks_after(TextDelta("he"), TextDelta("llo")) == (AnswerText("hello", is_streaming=True),)
    assert after(TextDelta("he"), TextDelta("llo"), TurnFinished("answered", "hello")) == SessionView(
        turn_blocks=(UserText("go"), AnswerText("hello")), model="m", step_start_index=1
    )


def test_reasoning_settles_when_the_answer_begins() -> None:
    assert blocks_after(ReasoningDelta("hm"), TextDelta("a")) == (
        ReasoningBlock("hm"),
        AnswerText("a", is_streaming=True),
    )


def test_an_answer_that_was_not_streamed_is_shown_at_the_end() -> None:
    assert blocks_after(TurnFinished("answered", "whole")) == (AnswerText("whole"),)


def test_a_switch_is_told_and_the_status_line_names_the_model_that_goes_on() -> None:
    switched = after(TextDelta("first"), ModelSwitched("m", "n", "it is full", 900))
    assert (switched.model, switched.turn_blocks[1:]) == (
        "n",
        (AnswerText("first"), Notice("the model is now n: it is full")),
    )


def test_a_retry_drops_what_was_streamed_since_the_step_began() -> None:
    retry = RetryScheduled(1, 5, 2.0, "Overloaded.")
    events = (TextDelta("first step"), StepStarted(2), TextDelta("half"), ReasoningDelta("an idea"), Noticed("kept"))
    view = after(*events, retry)
    assert (view.turn_blocks[1:], view.retry) == (
        (AnswerText("first step"), Notice("kept")),
        Retry(1, 5, 2.0, "Overloaded."),
    )


@pytest.mark.parametrize(
    ("event", "is_over"),
    [
        (TextDelta("ok"), True),
        (TurnFinished("interrupted", ""), True),
        (TurnFailed("overloaded", "the server failed", 3), True),
        (Noticed("a job ended"), False),
    ],
)
def test_a_retry_is_over_when_the_model_answers_or_the_turn_ends(event: Event, is_over: bool) -> None:
    retries = (
        RetryScheduled(1, 0, 2.0, "busy"),
        RetryScheduled(2, 0, 4.0, "the server is busy", None, "Overloaded (529)"),
    )
    assert after(*retries).retry == Retry(2, 0, 4.0, "Overloaded (529)")
    assert (after(*retries, event).retry is None) == is_over


def test_what_was_streamed_and_is_a_call_leaves_its_words() -> None:
    events = (TextDelta("first step"), StepStarted(2), TextDelta('So: {"name": "read"'))
    assert blocks_after(*events, CallsRead("So:")) == (AnswerText("first step"), AnswerText("So:"))
    assert blocks_after(*events, CallsRead("")) == (AnswerText("first step"),)


def test_a_summary_that_is_asked_for_again_leaves_the_answer_before_it_alone() -> None:
    """Between two turns, when the answer is the newest thing on the screen."""
    retry = RetryScheduled(1, 5, 2.0, "Overloaded.")
    answered = (StepStarted(1), TextDelta("all is well"), TurnFinished("answered", "all is well"))
    view = after(*answered, CompactionStarted(24_000), retry, RetryScheduled(2, 5, 4.0, "Overloaded."))
    assert [type(block) for block in view.blocks[1:]] == [AnswerText, RunningCompaction]


def test_a_call_runs_and_ends() -> None:
    arguments = {"command": "make"}
    running = (ToolStarted("1", "bash", arguments), ToolProgress("1", "a\n"), ToolProgress("1", "b\n"))
    assert blocks_after(*running) == (Call("1", "bash", arguments, "running", output_tail="a\nb\n"),)
    assert blocks_after(*running, ToolFinished("1", "bash", "done", "a\nb\n", ("x.py",))) == (
        Call("1", "bash", arguments, "done", text="a\nb\n", changed_files=("x.py",)),
    )
    in_part = ToolFinished("1", "bash", "done", "a\n…", lines=9_000)
    assert blocks_after(*running, in_part) == (Call("1", "bash", arguments, "done", text="a\n…", lines=9_000),)


def test_the_tail_of_a_running_call_is_bounded() -> None:
    view = after(ToolStarted("1", "bash", {}), *(ToolProgress("1", "x" * 1_000) for _ in range(20)))
    call = view.blocks[-1]
    assert isinstance(call, Call)
    assert len(call.output_tail) == MAX_LIVE_OUTPUT_CHARS


def test_calls_that_run_side_by_side_end_each_by_itself() -> None:
    started = (ToolStarted("1", "a", {}), ToolStarted("2", "b", {}))
    assert blocks_after(*started, ToolFinished("1", "a", "done", "one")) == (
        Call("1", "a", {}, "done", text="one"),
        Call("2", "b", {}, "running"),
    )


def test_a_call_id_that_comes_again_is_another_call() -> None:
    twice = (ToolStarted("1", "a", {}), ToolFinished("1", "a", "done", "x"), ToolStarted("1", "b", {}))
    assert blocks_after(*twice) == (Call("1", "a", {}, "done", text="x"), Call("1", "b", {}, "running"))


QUESTION = PermissionAsked("q", "1", "edit", {"path": "a"}, "mode ask", "-a\n+b", ("edit(a)",))


def test_an_allowed_call_goes_from_asking_to_running() -> None:
    asked = after(QUESTION)
    assert asked.open_questions == (QUESTION,)
    assert asked.blocks[-1] == Call("1", "edit", {"path": "a"}, "asking", diff="-a\n+b")
    assert asked.activity == "waiting for you"
    allowed = apply_event(asked, PermissionAnswered("q", "allow"))
    assert allowed.open_questions == ()
    assert allowed.blocks[-1] == Call("1", "edit", {"path": "a"}, "running", diff="-a\n+b")


def test_a_denied_call_is_one_block() -> None:
    denied = (QUESTION, PermissionAnswered("q", "deny"), CallDenied("1", "edit", {"path": "a"}, "user"))
    assert blocks_after(*denied) == (Call("1", "edit", {"path": "a"}, "denied", text="user", diff="-a\n+b"),)
    assert blocks_after(*denied, ToolFinished("1", "edit", "denied", "Denied: no.")) == (
        Call("1", "edit", {"path": "a"}, "denied", text="Denied: no.", diff="-a\n+b"),
    )


def test_a_command_that_is_asked_about_while_it_runs_runs_on_whatever_the_answer() -> None:
    question = replace(QUESTION, name="bash", arguments={"command": "a"}, preview="", offers=(), host="example.com")
    running = (ToolStarted("1", "bash", {"command": "a"}), question)
    assert blocks_after(*running) == (Call("1", "bash", {"command": "a"}, "asking"),)
    assert blocks_after(*running, PermissionAnswered("q", "deny")) == (Call("1", "bash", {"command": "a"}, "running"),)
    over = after(ToolFinished("1", "bash", "done", "job-1 is running"))
    asked = apply_event(over, question)
    assert (asked.open_questions, asked.blocks) == ((question,), over.blocks)
    assert apply_event(asked, PermissionAnswered("q", "allow")).blocks == over.blocks


def test_a_question_waits_until_it_is_answered() -> None:
    question = QuestionAsked("q", "Which?", ("a", "b"))
    assert after(question).open_questions == (question,)
    assert after(question, QuestionAnswered("q", "a")).open_questions == ()


def test_an_interrupted_turn_leaves_nothing_running() -> None:
    view = after(QUESTION, ToolStarted("2", "bash", {}), TextDelta("so"), TurnFinished("interrupted", "so"))
    assert view == SessionView(
        turn_blocks=(
            UserText("go"),
            Call("1", "edit", {"path": "a"}, "interrupted", diff="-a\n+b"),
            Call("2", "bash", {}, "interrupted"),
            AnswerText("so"),
            Notice("interrupted"),
        ),
        model="m",
        step_start_index=1,
    )


def test_a_failed_turn_says_why() -> None:
    view = after(TextDelta("so"), TurnFailed("auth", "No key.", 4))
    assert (view.blocks[1:], view.is_busy) == ((AnswerText("so"), Failure("auth", "No key.")), False)


def test_numbers_add_up() -> None:
    usage = Usage(100, 20, 3, 7)
    priced = after(
        ContextMeasured(90, 1_000, 800), ReplyFinished("m", "end", usage, 0.5), ReplyFinished("m", "end", usage, 0.25)
    )
    assert (priced.used_tokens, priced.available_tokens, priced.cost) == (130, 800, 0.75)
    assert after(ReplyFinished("m", "end", usage, None), ReplyFinished("m", "end", usage, 0.5)).cost is None


def test_a_summary_request_costs_but_does_not_count_as_context() -> None:
    compacted = ContextCompacted(90, 10, 20, 3, ("summary",))
    view = after(
        ContextMeasured(90, 1_000, 800),
        CompactionStarted(90),
        ReplyFinished("m", "end", Usage(70, 0, 0, 10), 0.5, "summary"),
        compacted,
    )
    assert (view.used_tokens, view.cost, view.blocks[1:]) == (10, 0.5, (Compaction(compacted),))


def test_a_resumed_conversation_is_shown_whole() -> None:
    conversation = Conversation(
        (
            User((Text("look"), Image("image/png", "x"))),
            Assistant(
                (Reasoning("hm", {}), Text("so"), ToolCall("1", "read", {"path": "a"}), ToolCall("2", "bash", {})), "m"
            ),
            User((ToolOutput("1", "text", "failed"),)),
        ),
        summary=messages.Summary(summary="before"),
    )
    assert build_resumed_view(conversation) == SessionView(
        (
            SummaryBlock("before"),
            UserText("look\n[image, image/png]"),
            ReasoningBlock("hm"),
            AnswerText("so"),
            Call("1", "read", {"path": "a"}, "failed", text="text"),
            Call("2", "bash", {}, "interrupted"),
        )
    )


def test_what_was_attached_is_told_again_and_pictures_are_named_once() -> None:
    message = User(
        (
            Text("look at [image #1 1×1], @a.py and @b.png"),
            Image("image/png", "pasted"),
            file_note("@a.py", "1\tone\n2\ttwo"),
            image_note("@b.png"),
            Image("image/png", "of the file"),
            Note("[The time is late]"),
        )
    )
    assert build_resumed_view(Conversation((message, User((Image("image/gif", "x"),))))).blocks == (
        UserText("look at [image #1 1×1], @a.py and @b.png"),
        Notice("attached `@a.py` (2 lines), `@b.png` (image)"),
        UserText("[image, image/gif]"),
    )


ids = st.sampled_from(["1", "2"])
words = st.text(max_size=5)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TurnStarted, words, words, words),
    st.builds(StepStarted, st.integers(1, 5)),
    st.builds(ContextMeasured, st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)),
    st.builds(TextDelta, words),
    st.builds(ReasoningDelta, words),
    st.builds(CallDelta, words, st.integers(0, 99)),
    st.builds(RetryScheduled, st.integers(1, 5), st.just(5), st.just(1.0), words),
    st.builds(ReplyFinished, words, st.just("end"), st.builds(Usage), st.none() | st.just(0.5)),
    st.builds(ToolStarted, ids, words, st.just({})),
    st.builds(ToolProgress, ids, words),
    st.builds(ToolFinished, ids, words, st.sampled_from(["done", "failed", "denied", "interrupted"]), words),
    st.builds(PermissionAsked, ids, ids, words, st.just({}), words),
    st.builds(PermissionAnswered, ids, st.sampled_from(["allow", "deny"])),
    st.builds(CallDenied, ids, words, st.just({}), words),
    st.builds(QuestionAsked, ids, words),
    st.builds(QuestionAnswered, ids, words),
    st.builds(CompactionStarted, st.integers(0, 99)),
    st.builds(ContextCompacted, st.just(9), st.just(3), st.just(9), st.just(3), st.just(())),
    st.builds(Noticed, words),
    st.builds(ModelSwitched, words, words, words, st.integers(0, 99)),
    st.builds(
        TurnFinished,
        st.sampled_from(["answered", "interrupted", "step_limit", "cost_limit", "repeated_calls", "failed"]),
        words,
    ),
    st.builds(TurnFailed, words, words, st.just(3)),
)


@given(st.lists(EVENTS, max_size=30))
def test_any_events_in_any_order_give_a_view(events: list[Event]) -> None:
    view = reduce(apply_event, events, SessionView())
    assert view.step_start_index <= max(1, len(view.turn_blocks))
    streaming = [
        block for block in view.blocks if isinstance(block, AnswerText | ReasoningBlock) and block.is_streaming
    ]
    assert streaming in ([], [view.blocks[-1]] if view.blocks else [])
    if not view.is_busy and events and isinstance(events[-1], TurnFinished | TurnFailed):
        assert not [block for block in view.blocks if isinstance(block, Call) and block.status in ("asking", "running")]
        assert view.open_questions == ()


@given(st.lists(words))
def test_the_answer_is_its_deltas_in_order(parts: list[str]) -> None:
    answers = [block.text for block in after(*map(TextDelta, parts)).blocks if isinstance(block, AnswerText)]
    assert "".join(answers) == "".join(parts)


def test_a_call_through_another_tool_is_shown_as_the_one_that_is_meant() -> None:
    call = ToolCall("1", "call_tool", {"name": "mcp__a__greet", "arguments": {"who": "Ann"}})
    conversation = Conversation((Assistant((call,)), User((ToolOutput("1", "hello"),))))
    assert build_resumed_view(conversation) == SessionView(
        past_blocks=(Call("1", "mcp__a__greet", {"who": "Ann"}, "done", text="hello"),)
    )


def test_a_notice_that_stands_there_last_is_not_repeated() -> None:
    notice, other = Noticed("no list"), Noticed("another")
    assert blocks_after(notice, notice) == (Notice("no list"),)
    assert blocks_after(notice, other, notice) == (Notice("no list"), Notice("another"), Notice("no list"))
