"""What the model has not seen yet, in too little room."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.request_budget import divide_room
from ebbtide.agent.compaction.room import (
    cut_to_fit,
    mask_unseen_outputs,
    unseen_outputs,
    unseen_tokens,
    with_dropped_step_note,
    without_images,
)
from ebbtide.agent.eviction.carrying_costs import mask_outputs
from ebbtide.agent.messages import (
    USER_CALL_PREFIX,
    Assistant,
    Conversation,
    Image,
    StoredBlob,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.records.rows import decode_snapshot, encode_snapshot
from ebbtide.agent.tokens.estimate import estimate_output
from ebbtide.agent.view.previews import cut_output, stored_excerpt
from ebbtide.agent.view.visible import first_unseen_index, visible_messages
from tests.kit.adapters import PIXEL
from tests.kit.conversations import conversations

LINES = "".join(f"{number:4} some words of a line\n" for number in range(400))
PICTURE = Image("image/png", PIXEL)


def user(text: str) -> User:
    return User((Text(text),))


def step(*outputs: ToolOutput) -> tuple[Assistant, User]:
    calls = tuple(ToolCall(output.call_id, "read", {"path": f"{output.call_id}.txt"}) for output in outputs)
    return Assistant(calls, "m/a"), User(outputs)


def shown_in(conversation: Conversation) -> list[ToolOutput]:
    return [
        output for message in visible_messages(conversation) if isinstance(message, User) for output in message.outputs
    ]


@given(st.lists(st.integers(0, 5000), max_size=12), st.integers(0, 20_000))
def test_a_room_is_divided_fairly(sizes: list[int], room: int) -> None:
    parts = divide_room(sizes, room)
    assert sum(parts) == sum(sizes) if sum(sizes) <= room else room - len(sizes) < sum(parts) <= room
    cut = [part for part, size in zip(parts, sizes, strict=True) if part < size]
    assert not cut or max(parts) <= min(cut) + 1
    assert all(part <= size for part, size in zip(parts, sizes, strict=True))


@given(
    conversations(), st.lists(st.sampled_from(["ok", LINES, LINES * 4, "é" * 3000]), max_size=5), st.integers(0, 9000)
)
def test_unseen_outputs_are_all_shown_in_their_room(before: Conversation, texts: list[str], room: int) -> None:
    outputs = [ToolOutput(f"new-{number}", text) for number, text in enumerate(texts)]
    conversation = before.plus(*step(*outputs)) if outputs else before
    after = cut_to_fit(conversation, room)
    assert cut_to_fit(after, room) is after
    assert (after.messages, after.masked) == (conversation.messages, conversation.masked)
    unseen = unseen_outputs(conversation)
    assert [found.output for found in unseen][-len(outputs) :] == outputs if outputs else True
    visible = {output.call_id: output for output in shown_in(after)}
    for found in unseen:
        output = visible[found.output.call_id]
        assert output == found.output or found.ref in output.text
    assert unseen_tokens(after) <= max(room, unseen_tokens(mask_unseen_outputs(conversation)) + 60 * len(unseen))
    assert (
        visible_messages(after)[: first_unseen_index(before.messages)]
        == visible_messages(before)[: first_unseen_index(before.messages)]
    )


def test_small_ones_stand_whole_and_of_large_ones_the_ends() -> None:
    small, large = ToolOutput("c1", "three words only"), ToolOutput("c2", LINES)
    conversation = Conversation((user("go"), *step(large, small, replace(large, call_id="c3"))))
    first, second, third = shown_in(cut_to_fit(conversation, 1200))
    assert second == small
    assert first.text.startswith('[Tool result stored — 10,400 bytes, 400 lines from "read".\n   0 some words')
    assert "\n 399 some words of a line]" in first.text
    assert 'ref_id="r1"' in first.text
    assert third.text == first.text.replace('"r1"', '"r3"')


def test_what_is_shown_in_part_already_is_cut_with_its_own_numbers() -> None:
    part = stored_excerpt("bash", "r1", 999_999, 7_777, LINES)
    output = ToolOutput("c1", part.text, stored=StoredBlob("d", 999_999, 7_777), inserted=part.inserted)
    (visible,) = shown_in(cut_to_fit(Conversation((user("go"), *step(output))), 600))
    assert visible.text.startswith('[Tool result stored — 999,999 bytes, 7,777 lines from "read".\n   0 some')
    assert visible.text.count("Tool result stored") == 1


def test_pictures_stay_while_there_is_room_and_are_named_otherwise() -> None:
    large = replace(PICTURE, data="unreadable")
    output = ToolOutput("c1", "two pictures", images=(PICTURE, large))
    conversation = Conversation((user("look"), *step(output)))
    after = cut_to_fit(conversation, 500)
    (visible,) = shown_in(after)
    assert visible.images == (PICTURE,)
    assert visible.text.startswith("two pictures\n[An image (image/png) is not shown")
    assert '`recall` with ref_id="r1:tool-2" shows it' in visible.text
    decoded = decode_snapshot(encode_snapshot(after, 3))
    assert decoded is not None
    assert decoded[1].retold == after.retold


def test_what_was_cut_already_is_cut_further_from_both_ends_of_what_it_said() -> None:
    whole = ToolOutput("c1", LINES, stored=StoredBlob("d", 10_400, 400))
    cut = cut_output(
        whole, 800, estimate_output(whole), estimate_output, 'read_result with ref_id="r1" shows all of it'
    )
    (visible,) = shown_in(cut_to_fit(Conversation((user("go"), *step(cut))), 300))
    assert "   0 some words of a line\n   1 some words" in visible.text
    assert " 399 some words of a line" in visible.text
    assert "characters left out" not in visible.text
    assert '10,400 bytes, 400 lines from "read"' in visible.text


def test_all_pictures_are_named_once_but_pinned_ones() -> None:
    outputs = ToolOutput("c1", "one", images=(PICTURE,)), ToolOutput("c2", "two", images=(PICTURE,))
    conversation = Conversation((user("look"), *step(*outputs)), pinned=frozenset({"r2"}))
    after = without_images(conversation)
    first, second = shown_in(after)
    assert (first.images, second) == ((), outputs[1])
    assert first.text.startswith("one\n[An image (image/png) is not shown")
    assert '`recall` with ref_id="r1:tool-1" shows it' in first.text
    assert without_images(after) is after


def test_commands_of_the_user_are_unseen_too_and_what_was_seen_is_not() -> None:
    ran = (
        user("!ls"),
        Assistant((ToolCall(f"{USER_CALL_PREFIX}2", "bash", {}),)),
        User((ToolOutput(f"{USER_CALL_PREFIX}2", LINES),)),
    )
    seen = Conversation((user("go"), *step(ToolOutput("c1", LINES)), Assistant((Text("done"),), "m/a"), *ran))
    assert [found.ref for found in unseen_outputs(seen)] == ["r2"]
    assert first_unseen_index(seen.messages) == 5
    assert mask_outputs(seen, 0).masked == {"c1"}
    assert unseen_outputs(Conversation((user("go"),))) == ()


def test_a_step_that_has_to_go_is_named_once() -> None:
    conversation = Conversation((user("go"), *step(*(ToolOutput(f"c{n}", LINES) for n in range(30)))))
    request = with_dropped_step_note(user("go"), unseen_outputs(conversation))
    assert "- Viewed c0.txt – 400 lines [recall:r1]\n" in str(request.parts[1]).replace("\\n", "\n")
    assert "- and r25 to r30]" in str(request.parts[1])
    assert with_dropped_step_note(request, unseen_outputs(conversation)) == request
