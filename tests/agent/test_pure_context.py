"""The pure context functions, over arbitrary conversations."""

import itertools
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Assistant, Conversation, Image, Message, Text, ToolOutput, User
from ebbtide.agent.prompt.build import Instructions, Prompt, build_prompt, merge_user_messages
from ebbtide.agent.prompt.tool_selection import select_tools
from ebbtide.agent.tokens.estimate import estimate_message, estimate_messages, estimate_text
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.previews import cut_output
from tests.kit.conversations import conversations, images, texts

INSTRUCTIONS = Instructions("base", "here", "rules")
SPEC = ToolSpec("echo", "Says it again.", {"type": "object"})


def calls_and_outputs(messages: tuple[Message, ...]) -> tuple[list[str], list[str]]:
    calls = [call.id for message in messages if isinstance(message, Assistant) for call in message.calls]
    outputs = [output.call_id for message in messages if isinstance(message, User) for output in message.outputs]
    return calls, outputs


def is_valid(messages: tuple[Message, ...]) -> bool:
    """Whether every call is answered once, in the message right after it."""
    for message, following in zip(messages, (*messages[1:], User(())), strict=False):
        if isinstance(message, Assistant):
            answered = [o.call_id for o in following.outputs] if isinstance(following, User) else []
            if [call.id for call in message.calls] != answered:
                return False
    calls, outputs = calls_and_outputs(messages)
    return calls == outputs


def test_the_estimate_weighs_letters_signs_and_other_characters() -> None:
    assert [estimate_text(text) for text in ("", "a", "abc", "1", "1;", "é", "日本", "a\n")] == [0, 1, 1, 1, 2, 2, 3, 1]


@given(texts, texts)
def test_an_estimate_never_shrinks_when_text_is_added(first: str, second: str) -> None:
    assert estimate_text(first) <= estimate_text(first + second) <= estimate_text(first) + estimate_text(second)


@given(conversations())
def test_a_conversation_costs_what_its_messages_cost(conversation: Conversation) -> None:
    assert estimate_messages(conversation.messages) == sum(map(estimate_message, conversation.messages))


@given(conversations())
def test_a_prompt_is_valid_and_built_the_same_each_time(conversation: Conversation) -> None:
    prompt = build_prompt(conversation, INSTRUCTIONS)
    assert prompt == build_prompt(conversation, INSTRUCTIONS)
    assert prompt.system == "base\n\nrules\n\nhere"
    assert is_valid(prompt.messages)
    roles = [type(message) for message in prompt.messages]
    assert all(not (a is b is User) for a, b in itertools.pairwise(roles))


@given(conversations(), conversations())
def test_a_prompt_is_the_beginning_of_the_next_one(conversation: Conversation, more: Conversation) -> None:
    longer = replace(conversation, messages=conversation.messages + more.messages)
    before = [(type(m), part) for m in build_prompt(conversation, INSTRUCTIONS).messages for part in m.parts]
    after = [(type(m), part) for m in build_prompt(longer, INSTRUCTIONS).messages for part in m.parts]
    assert after[: len(before)] == before


@given(conversations())
def test_a_model_without_images_is_shown_a_note_for_each(conversation: Conversation) -> None:
    def pictures(prompt: Prompt) -> int:
        parts = [part for message in prompt.messages if isinstance(message, User) for part in message.parts]
        count = sum(isinstance(part, Image) for part in parts)
        return count + sum(len(part.images) for part in parts if isinstance(part, ToolOutput))

    with_images = build_prompt(conversation, INSTRUCTIONS)
    without = build_prompt(conversation, INSTRUCTIONS, supports_images=False)
    notes = str(without).count("this model does not support images")
    assert (pictures(without), notes) == (0, pictures(with_images))
    assert is_valid(without.messages)


def test_merging_twice_changes_nothing_more() -> None:
    messages = (User((Text("a"),)), User((Text("b"),)), Assistant((Text("c"),)), User((Text("d"),)))
    assert merge_user_messages(merge_user_messages(messages)) == merge_user_messages(messages)


@given(st.text(min_size=1, max_size=20_000), st.integers(-10, 4000), st.booleans())
def test_a_preview_fits_and_is_the_beginning_and_the_end(text: str, room: int, is_stored: bool) -> None:
    def count(output: ToolOutput) -> int:
        return estimate_message(User((output,)))

    how = "it is in r12" if is_stored else ""
    before = ToolOutput("c1", text, "failed", (Image("image/png", "AAAA"),))
    room = min(room, count(before) - 1)
    cut = cut_output(before, room, count(before), count, how)
    parts = re.fullmatch(r"(.*?)\n?(\[… [\d,]+ characters? left out.* …\])\n?(.*?)", cut.text, re.DOTALL)
    assert parts is not None
    head, note, tail = parts.groups()
    assert (cut.call_id, cut.status, cut.images) == ("c1", "failed", ())
    assert (text.startswith(head), text.endswith(tail), len(head) + len(tail) < len(text)) == (True, True, True)
    assert ("; it is in r12;" in note) == is_stored
    assert count(cut) <= room or not head + tail


@given(st.lists(st.builds(ToolSpec, st.sampled_from("abc"), texts, st.just({})), max_size=6))
def test_each_tool_is_offered_once_and_in_order(specs: list[ToolSpec]) -> None:
    chosen = select_tools(specs)
    assert [spec.name for spec in chosen] == list(dict.fromkeys(spec.name for spec in specs))
    assert select_tools(chosen) == chosen


@given(st.lists(images, max_size=3))
def test_an_image_is_counted(found: list[Image]) -> None:
    assert estimate_message(User((Text("x"), *found))) == 13 + 1600 * len(found)
