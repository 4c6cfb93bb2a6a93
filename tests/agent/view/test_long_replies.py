"""Long texts of the model that are shown by their ends."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.compaction.receipt import SHORTENED_REPLY_REASON, SHORTENED_STEP_REASON, build_receipt
from ebbtide.agent.compaction.room import conversation_tokens
from ebbtide.agent.eviction.carrying_costs import mask_outputs, old_maskable_items
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Conversation,
    Message,
    ProviderItem,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.prompt.view_cache import ViewCache
from ebbtide.agent.view.items import view_items
from ebbtide.agent.view.references import message_digits, parse_reference
from ebbtide.agent.view.visible import message_key, visible_messages

PLAN = "".join(f"Step {number}: look at what the parser does there.\n" for number in range(300))
ASKED = User((Text("And now?"),))
SIGNED = Reasoning("hm", {"type": "thinking", "signature": "s"})


def said(*parts: AssistantPart) -> Conversation:
    """A conversation in which the model said these parts a while ago."""
    reply = Assistant(parts)
    outputs = User(tuple(ToolOutput(call.id, "ok") for call in reply.calls))
    later = (Assistant((Text("Well."),)), ASKED, Assistant((Text("Yes."),)), ASKED)
    return Conversation((ASKED,), messages_before=4, outputs_before=2).plus(reply, outputs, *later)


def test_a_long_text_is_shown_by_its_ends_with_its_reference_and_its_calls() -> None:
    call = ToolCall("c1", "bash", {"command": "ls"})
    whole = said(Text(PLAN), call, Text(PLAN.upper()))
    after = mask_outputs(whole, 0)
    visible = visible_messages(after)
    reply = visible[1]
    assert isinstance(reply, Assistant)
    digits = message_digits(whole.messages[1])
    assert reply.text.startswith("Step 0: look")
    assert f" characters left out [recall:msg-{digits}] …]\n" in reply.text
    assert reply.text.endswith("STEP 299: LOOK AT WHAT THE PARSER DOES THERE.\n")
    assert reply.parts == (Text(reply.text), call)
    assert [now for now in visible if now is not reply] == [
        was for was in whole.messages if was is not whole.messages[1]
    ]
    assert (after.messages, after.anchor) == (whole.messages, None)
    (item,) = [one for one in build_receipt(whole, after, ("mask",)) if one.why == SHORTENED_REPLY_REASON]
    assert (item.fate, item.item) == ("cut", f"step: bash [msg-{digits}]")
    remaining = [
        (one.item, one.why) for one in build_receipt(whole, after, ("mask",)) if one.item.startswith(("step", "answer"))
    ]
    newest = "among the newest steps"
    assert remaining[1:] == [("step: bash", SHORTENED_STEP_REASON), ("answer: Well.", newest), ("answer: Yes.", newest)]
    assert [one.state for one in view_items(after, lambda _: 1) if one.key == message_key(5)] == ["preview"]


@pytest.mark.parametrize(
    "conversation",
    [
        said(SIGNED, Text(PLAN)),
        said(ProviderItem({"type": "compaction"}), Text(PLAN)),
        said(Text(PLAN, native={"type": "message", "id": "i"})),
        said(Text(PLAN[:3_000])),
        said(Text("ok"), ToolCall("c1", "write", {"path": "a", "content": PLAN})),
        Conversation((ASKED, Assistant((Text(PLAN),)), ASKED)),
        Conversation((ASKED, Assistant((Text(PLAN), ToolCall("c1", "bash", {}))))),
        Conversation((ASKED, Assistant((SIGNED,), is_paused=True), Assistant((Text(PLAN),)), *said().messages[1:])),
        replace(said(Text(PLAN)), pinned=frozenset({"m5"})),
    ],
    ids=["signed", "opaque", "own form", "short", "arguments", "newest", "unanswered", "second half", "pinned"],
)
def test_these_stay_byte_for_byte(conversation: Conversation) -> None:
    assert mask_outputs(conversation, 0) is conversation


def test_what_is_protected_is_counted_from_the_end_with_outputs_and_texts_together() -> None:
    plans = [Assistant((Text(f"{number}. {PLAN}"),)) for number in range(3)]
    whole = Conversation((ASKED,)).plus(*(one for plan in plans for one in (plan, ASKED)), Assistant((Text("Yes."),)))
    (tokens,) = {item.tokens for item in old_maskable_items(whole, 0)}
    places = [[item.message_index for item in old_maskable_items(whole, times * tokens)][::-1] for times in range(4)]
    assert places == [[1, 3, 5], [1, 3], [1], []]
    assert [item.message_index for item in old_maskable_items(whole, 0, newest_message_count=4)] == [3, 1]


TEXTS = st.one_of(
    st.sampled_from(["", "ok", PLAN, "x" * 9_000, "\n" * 5_000, "字" * 3_000, "🙂 é" * 1_000, "\ud800" * 2_000]),
    st.text(min_size=1_300, max_size=2_500),
)


@st.composite
def talks(draw: st.DrawFn) -> Conversation:
    """Replies with long texts in all kinds of company, and pieces of the program's own forms in them."""
    messages = list[Message]([ASKED])
    for number in range(draw(st.integers(1, 5))):
        text = draw(TEXTS) + draw(st.sampled_from(["", "[… recall:msg-00000000]", "\n[recall:r9]"]))
        parts = list[AssistantPart]([Text(text)] if text else [])
        if draw(st.booleans()):
            parts.append(ToolCall(f"c{number}", "bash", {}))
        if draw(st.integers(0, 4)) == 0:
            parts.insert(0, SIGNED)
        reply = Assistant(tuple(parts))
        outputs = tuple(ToolOutput(call.id, "x" * draw(st.sampled_from([3, 4_000]))) for call in reply.calls)
        messages += [reply, User(outputs) if outputs else ASKED]
    before = draw(st.integers(0, 9))
    return Conversation(messages_before=before, outputs_before=before).plus(*messages)


@given(talks(), st.sampled_from([0, 0, 1_500, 6_000]), st.integers(0, 3))
def test_a_mask_of_texts_is_done_once_takes_less_and_loses_nothing(
    conversation: Conversation, protect: int, newest: int
) -> None:
    after = mask_outputs(conversation, protect, newest)
    assert mask_outputs(after, protect, newest) is after
    assert conversation_tokens(after) <= conversation_tokens(conversation)
    assert after.messages == conversation.messages
    retold = {one.key: one for one in after.retold}
    view = ViewCache()
    assert view.visible_messages(after) == visible_messages(after)
    for position, (was, now) in enumerate(
        zip(after.messages, visible_messages(after), strict=True), after.messages_before
    ):
        if not isinstance(was, Assistant) or not isinstance(now, Assistant):
            assert type(was) is type(now)
            continue
        assert now.calls == was.calls
        if message_key(position) in retold:
            assert SIGNED not in was.parts
            ref = now.text.rpartition("[recall:")[2].partition("]")[0] if "[recall:r9]" not in was.text else None
            assert ref is None or str(parse_reference(ref)) in {f"msg-{message_digits(was)}", "msg-00000000"}
            assert f"[recall:msg-{message_digits(was)}]" in now.text
        else:
            assert now is was
