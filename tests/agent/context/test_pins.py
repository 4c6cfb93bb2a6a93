"""What is pinned and what is retold, over arbitrary conversations."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.context.apply_strategy import run_strategy
from ebbtide.agent.context.compaction import Floor, solve_floor
from ebbtide.agent.context.mask import message_key, numbered_outputs, visible_messages
from ebbtide.agent.context.old_outputs import mask_outputs
from ebbtide.agent.context.pins import (
    PinSize,
    open_request,
    pins_after_cut,
    shorter,
    size_of_pins,
    smaller_pins,
    view_from,
)
from ebbtide.agent.context.prompt import Instructions, build_prompt
from ebbtide.agent.context.settings import Caps
from ebbtide.agent.context.strategies import LADDERS, Room, size_of
from ebbtide.agent.context.summary import PINNED_HEADING
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Form,
    Image,
    Message,
    Note,
    ShortenedPart,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.records.rows import decode_snapshot, encode_snapshot
from tests.agent.context.test_context import is_valid
from tests.agent.histories import conversations, texts

CAPS = Caps(tail=100, ledger=400, retain=50, summary=100, protect=50)
RUNGS = sorted({strategy for ladder in LADDERS.values() for strategy in ladder})
FORMS: list[Form] = ["line", "preview", "summary"]
INSTRUCTIONS = Instructions("base")


def keys_of(conversation: Conversation) -> list[str]:
    messages = [message_key(conversation.messages_before + index) for index in range(len(conversation.messages))]
    return [*(found.ref for found in numbered_outputs(conversation)), *messages]


@st.composite
def steered(draw: st.DrawFn) -> Conversation:
    """A conversation in which some is pinned, some masked and some retold, not at its beginning."""
    whole = draw(conversations())
    whole = replace(whole, outputs_before=draw(st.integers(0, 50)), messages_before=draw(st.integers(0, 50)))
    open_ones = {message_key(whole.messages_before + index) for index in open_request(whole)}
    keys = st.sampled_from(keys_of(whole))
    pinned = draw(st.frozensets(keys))
    told = [key for key in draw(st.lists(keys, unique=True)) if key not in open_ones]
    retold = tuple(ShortenedPart(key, draw(st.sampled_from(FORMS)), draw(texts)) for key in told)
    calls = [found.output.call_id for found in numbered_outputs(whole) if found.ref not in (*pinned, *told)]
    masked = draw(st.frozensets(st.sampled_from(calls))) if calls else frozenset[str]()
    return replace(whole, pinned=pinned, retold=retold, masked=masked)


def texts_in(conversation: Conversation) -> list[str]:
    """All that the model is shown, as texts."""
    messages = build_prompt(conversation, INSTRUCTIONS).messages
    return [part.text for message in messages for part in message.parts if isinstance(part, Text | Note | ToolOutput)]


def pinned_texts(conversation: Conversation) -> list[str]:
    """What is pinned, as it is shown."""
    return [part.text for one in pins_after_cut(conversation, len(conversation.messages)) for part in one.parts
            if isinstance(part, Text)]  # fmt: skip


@given(steered())
def test_what_is_shown_has_the_steps_and_calls_of_what_was_said(conversation: Conversation) -> None:
    shown = visible_messages(conversation)
    assert len(shown) == len(conversation.messages)
    assert is_valid(shown)
    told = {one.key: one.text for one in conversation.retold}
    for position, (message, seen) in enumerate(
        zip(conversation.messages, shown, strict=True), conversation.messages_before
    ):
        if isinstance(message, Assistant):
            assert seen is message
        elif message_key(position) not in told:
            plain = [part for part in message.parts if not isinstance(part, ToolOutput)]
            assert [part for part in seen.parts if not isinstance(part, ToolOutput)] == plain
        elif message.text:
            assert isinstance(seen, User)
            assert seen.text == told[message_key(position)]
            assert [part for part in seen.parts if isinstance(part, Image)] == [
                part for part in message.parts if isinstance(part, Image)
            ]


@given(steered())
def test_a_snapshot_keeps_what_is_pinned_and_retold(conversation: Conversation) -> None:
    conversation = view_from(conversation, 0)
    position = conversation.messages_before + len(conversation.messages)
    decoded = decode_snapshot(encode_snapshot(conversation, position))
    assert decoded == (conversation.messages_before, replace(conversation, messages=()))


@given(steered(), st.integers(0, 300), st.integers(0, 2))
def test_masking_leaves_what_is_pinned_and_makes_nothing_larger(
    conversation: Conversation, protect: int, newest: int
) -> None:
    masked = mask_outputs(conversation, protect, newest)
    assert mask_outputs(masked, protect, newest) is masked
    assert size_of(masked) <= size_of(conversation)
    assert pinned_texts(masked) == pinned_texts(conversation)


@given(steered(), st.sampled_from(RUNGS))
def test_whatever_leaves_the_view_what_is_pinned_stays(conversation: Conversation, strategy: str) -> None:
    floor = Floor(CAPS, 1)
    after = run_strategy(strategy, conversation, CAPS, floor)  # type: ignore[arg-type]  # one of the rungs
    if after is None:
        return
    shown = texts_in(after)
    for text in pinned_texts(conversation):
        assert text in shown
    again = run_strategy(strategy, after, CAPS, floor)  # type: ignore[arg-type]  # one of the rungs
    for text in pinned_texts(conversation):
        assert again is None or text in texts_in(again)


@given(steered(), st.sampled_from(RUNGS))
def test_what_was_unpinned_goes_with_the_next_rewrite(conversation: Conversation, strategy: str) -> None:
    after = run_strategy(strategy, conversation, CAPS, Floor(CAPS, 1))  # type: ignore[arg-type]  # one of the rungs
    if after is None or not after.summary.kept:
        return
    later = (User((Text("and now?"),)), Assistant((Text("well"),), "m/a"))
    freed = run_strategy("last", replace(after, pinned=frozenset()).plus(*later), CAPS, Floor(CAPS, 1))
    assert freed is not None
    assert freed.summary.kept == ()
    assert PINNED_HEADING not in texts_in(freed)


@given(steered())
def test_pins_get_smaller_and_their_references_stay(conversation: Conversation) -> None:
    seen = view_from(conversation, len(conversation.messages) // 2)
    seen = seen if is_valid(seen.messages) else view_from(conversation, 0)
    sizes: tuple[PinSize, ...] = ("preview", "line")
    for size in sizes:
        smaller = smaller_pins(seen, size)
        assert smaller.pinned == seen.pinned
        assert smaller.messages == seen.messages
        assert size_of(smaller) <= size_of(seen)
        assert smaller_pins(smaller, size) is smaller
        for one in smaller.retold:
            assert one in seen.retold or one.key in seen.pinned


@given(steered(), st.integers(0, 4000), st.integers(0, 500))
def test_the_floor_always_ends_and_gives_way_to_pins_last(
    conversation: Conversation, effective: int, fixed: int
) -> None:
    floor = solve_floor(conversation, CAPS, Room(effective, fixed, fixed))
    if floor.pins != "whole":
        assert conversation.pinned
        assert floor.caps.tail <= CAPS.tail
    if not floor.problem:
        cut = len(conversation.messages)
        rest = size_of_pins(smaller_pins(conversation, floor.pins), cut)
        assert rest == 0 or rest + 2 * fixed <= 0.6 * effective + size_of(conversation)


def long_output(number: int, size: int = 4_000) -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", "read", {"path": f"{number}.txt"})
    lines = "\n".join(f"{line}\tline {line} of {number}" for line in range(1, size // 10))
    return Assistant((call,), "m/a"), User((ToolOutput(f"c{number}", lines),))


def test_where_pins_alone_are_too_much_they_are_shown_by_their_ends_and_then_by_a_line() -> None:
    asked = User((Text("look"),))
    conversation = Conversation((asked, *long_output(1), *long_output(2), *long_output(3)), pinned=frozenset({"r1"}))
    size = size_of_pins(conversation)
    assert size > 3_000
    small = Caps(tail=900, ledger=900)
    rooms = [Room(effective, 100, 100) for effective in (20_000, 11_000, 4_900)]
    newest = replace(conversation, messages=conversation.messages[:-2])
    assert [solve_floor(newest, small, room).pins for room in rooms] == ["whole", "preview", "line"]
    line = smaller_pins(conversation, "line")
    (output,) = [found.output for found in numbered_outputs(conversation) if found.ref == "r1"]
    assert [one.text for one in line.retold] == [shorter(output.text, "r1", "read", "line")]
    assert line.retold[0].text.endswith("[recall:r1]")
