"""What is pinned and what is retold, over arbitrary conversations."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.compaction.plan import CompactionLimits, compute_limits
from ebbtide.agent.compaction.room import CompactionRoom, conversation_tokens
from ebbtide.agent.compaction.strategies import STRATEGIES_BY_CAUSE, run_strategy
from ebbtide.agent.eviction.carrying_costs import mask_outputs
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Image,
    Message,
    Note,
    ShortenedForm,
    ShortenedPart,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.records.rows import decode_snapshot, encode_snapshot
from ebbtide.agent.view.items import (
    PinForm,
    displaced_pins,
    pin_tokens,
    shortened_text,
    shrink_pins,
    unanswered_indices,
    view_after_cut,
)
from ebbtide.agent.view.visible import PINNED_HEADING, message_key, numbered_outputs, visible_messages
from tests.agent.test_pure_context import is_valid
from tests.kit.conversations import conversations, texts

CAPS = CompactionCaps(tail=100, ledger=400, retain=50, summary=100, protected_output_tokens=50)
RUNGS = sorted({strategy for ladder in STRATEGIES_BY_CAUSE.values() for strategy in ladder})
FORMS: list[ShortenedForm] = ["line", "preview", "summary"]
INSTRUCTIONS = Instructions("base")


def keys_of(conversation: Conversation) -> list[str]:
    messages = [message_key(conversation.messages_before + index) for index in range(len(conversation.messages))]
    return [*(found.ref for found in numbered_outputs(conversation)), *messages]


@st.composite
def steered(draw: st.DrawFn) -> Conversation:
    """A conversation in which some is pinned, some masked and some retold, not at its beginning."""
    whole = draw(conversations())
    whole = replace(whole, outputs_before=draw(st.integers(0, 50)), messages_before=draw(st.integers(0, 50)))
    open_ones = {message_key(whole.messages_before + index) for index in unanswered_indices(whole)}
    keys = st.sampled_from(keys_of(whole))
    pinned = draw(st.frozensets(keys))
    keys_shortened = [key for key in draw(st.lists(keys, unique=True)) if key not in open_ones]
    retold = tuple(ShortenedPart(key, draw(st.sampled_from(FORMS)), draw(texts)) for key in keys_shortened)
    calls = [found.output.call_id for found in numbered_outputs(whole) if found.ref not in (*pinned, *keys_shortened)]
    masked = draw(st.frozensets(st.sampled_from(calls))) if calls else frozenset[str]()
    return replace(whole, pinned=pinned, retold=retold, masked=masked)


def texts_in(conversation: Conversation) -> list[str]:
    """All that the model is shown, as texts."""
    messages = build_prompt(conversation, INSTRUCTIONS).messages
    return [part.text for message in messages for part in message.parts if isinstance(part, Text | Note | ToolOutput)]


def pinned_texts(conversation: Conversation) -> list[str]:
    """What is pinned, as it is shown."""
    return [part.text for one in displaced_pins(conversation, len(conversation.messages)) for part in one.parts
            if isinstance(part, Text)]  # fmt: skip


@given(steered())
def test_what_is_shown_has_the_steps_and_calls_of_what_was_said(conversation: Conversation) -> None:
    visible = visible_messages(conversation)
    assert len(visible) == len(conversation.messages)
    assert is_valid(visible)
    replacements = {one.key: one.text for one in conversation.retold}
    for position, (message, seen) in enumerate(
        zip(conversation.messages, visible, strict=True), conversation.messages_before
    ):
        if isinstance(message, Assistant):
            assert seen is message
        elif message_key(position) not in replacements:
            plain = [part for part in message.parts if not isinstance(part, ToolOutput)]
            assert [part for part in seen.parts if not isinstance(part, ToolOutput)] == plain
        elif message.text:
            assert isinstance(seen, User)
            assert seen.text == replacements[message_key(position)]
            assert [part for part in seen.parts if isinstance(part, Image)] == [
                part for part in message.parts if isinstance(part, Image)
            ]


@given(steered())
def test_a_snapshot_keeps_what_is_pinned_and_retold(conversation: Conversation) -> None:
    conversation = view_after_cut(conversation, 0)
    position = conversation.messages_before + len(conversation.messages)
    decoded = decode_snapshot(encode_snapshot(conversation, position))
    assert decoded == (conversation.messages_before, replace(conversation, messages=()))


@given(steered(), st.integers(0, 300), st.integers(0, 2))
def test_masking_leaves_what_is_pinned_and_makes_nothing_larger(
    conversation: Conversation, protect: int, newest: int
) -> None:
    masked = mask_outputs(conversation, protect, newest)
    assert mask_outputs(masked, protect, newest) is masked
    assert conversation_tokens(masked) <= conversation_tokens(conversation)
    assert pinned_texts(masked) == pinned_texts(conversation)


@given(steered(), st.sampled_from(RUNGS))
def test_whatever_leaves_the_view_what_is_pinned_stays(conversation: Conversation, strategy: str) -> None:
    limits = CompactionLimits(CAPS, 1)
    after = run_strategy(strategy, conversation, CAPS, limits)  # type: ignore[arg-type]  # one of the rungs
    if after is None:
        return
    texts = texts_in(after)
    for text in pinned_texts(conversation):
        assert text in texts
    again = run_strategy(strategy, after, CAPS, limits)  # type: ignore[arg-type]  # one of the rungs
    for text in pinned_texts(conversation):
        assert again is None or text in texts_in(again)


@given(steered(), st.sampled_from(RUNGS))
def test_what_was_unpinned_goes_with_the_next_rewrite(conversation: Conversation, strategy: str) -> None:
    after = run_strategy(strategy, conversation, CAPS, CompactionLimits(CAPS, 1))  # type: ignore[arg-type]  # one of the rungs
    if after is None or not after.summary.pinned:
        return
    later = (User((Text("and now?"),)), Assistant((Text("well"),), "m/a"))
    freed = run_strategy(
        "keep_last_message", replace(after, pinned=frozenset()).plus(*later), CAPS, CompactionLimits(CAPS, 1)
    )
    assert freed is not None
    assert freed.summary.pinned == ()
    assert PINNED_HEADING not in texts_in(freed)


@given(steered())
def test_pins_get_smaller_and_their_references_stay(conversation: Conversation) -> None:
    seen = view_after_cut(conversation, len(conversation.messages) // 2)
    seen = seen if is_valid(seen.messages) else view_after_cut(conversation, 0)
    sizes: tuple[PinForm, ...] = ("preview", "line")
    for size in sizes:
        smaller = shrink_pins(seen, size)
        assert smaller.pinned == seen.pinned
        assert smaller.messages == seen.messages
        assert conversation_tokens(smaller) <= conversation_tokens(seen)
        assert shrink_pins(smaller, size) is smaller
        for one in smaller.retold:
            assert one in seen.retold or one.key in seen.pinned


@given(steered(), st.integers(0, 4000), st.integers(0, 500))
def test_the_floor_always_ends_and_gives_way_to_pins_last(
    conversation: Conversation, effective: int, fixed: int
) -> None:
    limits = compute_limits(conversation, CAPS, CompactionRoom(effective, fixed, fixed))
    if limits.pin_form != "whole":
        assert conversation.pinned
        assert limits.caps.tail <= CAPS.tail
    if not limits.problem:
        cut = len(conversation.messages)
        rest = pin_tokens(shrink_pins(conversation, limits.pin_form), cut)
        assert rest == 0 or rest + 2 * fixed <= 0.6 * effective + conversation_tokens(conversation)


def long_output(number: int, size: int = 4_000) -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", "read", {"path": f"{number}.txt"})
    lines = "\n".join(f"{line}\tline {line} of {number}" for line in range(1, size // 10))
    return Assistant((call,), "m/a"), User((ToolOutput(f"c{number}", lines),))


def test_where_pins_alone_are_too_much_they_are_shown_by_their_ends_and_then_by_a_line() -> None:
    asked = User((Text("look"),))
    conversation = Conversation((asked, *long_output(1), *long_output(2), *long_output(3)), pinned=frozenset({"r1"}))
    size = pin_tokens(conversation)
    assert size > 3_000
    small = CompactionCaps(tail=900, ledger=900)
    rooms = [CompactionRoom(effective, 100, 100) for effective in (20_000, 11_000, 4_900)]
    newest = replace(conversation, messages=conversation.messages[:-2])
    assert [compute_limits(newest, small, room).pin_form for room in rooms] == ["whole", "preview", "line"]
    line = shrink_pins(conversation, "line")
    (output,) = [found.output for found in numbered_outputs(conversation) if found.ref == "r1"]
    assert [one.text for one in line.retold] == [shortened_text(output.text, "r1", "read", "line")]
    assert line.retold[0].text.endswith("[recall:r1]")
