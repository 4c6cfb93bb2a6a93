"""The pure context functions, over arbitrary conversations."""

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent.context.budget import ContextBudget, Window
from agent.context.estimate import estimate_message, estimate_messages, estimate_text
from agent.context.offload import offload
from agent.context.prompt import Instructions, Prompt, build_prompt, merge_users
from agent.context.select import ToolSpec, select_tools
from agent.messages import Assistant, Conversation, Image, Message, Text, ToolOutput, User
from tests.agent.histories import conversations, images, texts

INSTRUCTIONS = Instructions("base", "here", "rules")
SPEC = ToolSpec("echo", "Says it again.", {"type": "object"})


def calls_and_outputs(messages: tuple[Message, ...]) -> tuple[list[str], list[str]]:
    calls = [call.id for message in messages if isinstance(message, Assistant) for call in message.calls]
    outputs = [output.call_id for message in messages if isinstance(message, User) for output in message.outputs]
    return calls, outputs


def is_valid(messages: tuple[Message, ...]) -> bool:
    """Whether every call is answered once, in the message right after it."""
    for message, following in zip(messages, (*messages[1:], User(())), strict=True):
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
        shown = sum(isinstance(part, Image) for part in parts)
        return shown + sum(len(part.images) for part in parts if isinstance(part, ToolOutput))

    with_images = build_prompt(conversation, INSTRUCTIONS)
    without = build_prompt(conversation, INSTRUCTIONS, images=False)
    notes = str(without).count("this model takes no images")
    assert (pictures(without), notes) == (0, pictures(with_images))
    assert is_valid(without.messages)


def test_merging_twice_changes_nothing_more() -> None:
    messages = (User((Text("a"),)), User((Text("b"),)), Assistant((Text("c"),)), User((Text("d"),)))
    assert merge_users(merge_users(messages)) == merge_users(messages)


@given(st.lists(st.text(max_size=2000), min_size=1, max_size=5), st.integers(0, 4000))
def test_outputs_stay_whole_unless_they_crowd_the_window(found: list[str], room: int) -> None:
    outputs = tuple(ToolOutput(str(n), text) for n, text in enumerate(found))
    window = Window(room + 1, 1, 0)
    shown = offload(outputs, ContextBudget(window, history=window.effective - min(room, window.effective)))
    assert [(o.call_id, o.status) for o in shown] == [(o.call_id, o.status) for o in outputs]
    for before, after in zip(outputs, shown, strict=True):
        assert after == before or ("left out" in after.text and before.text[:1] == after.text[:1])


@given(st.lists(st.builds(ToolSpec, st.sampled_from("abc"), texts, st.just({})), max_size=6))
def test_each_tool_is_offered_once_and_in_order(specs: list[ToolSpec]) -> None:
    chosen = select_tools(specs)
    assert [spec.name for spec in chosen] == list(dict.fromkeys(spec.name for spec in specs))
    assert select_tools(chosen) == chosen


@given(st.lists(images, max_size=3))
def test_an_image_is_counted(found: list[Image]) -> None:
    assert estimate_message(User((Text("x"), *found))) == 13 + 1600 * len(found)
