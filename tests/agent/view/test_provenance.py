"""What has become of each place where a text was said."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ebbtide.agent.messages import Assistant, Conversation, Message, Note, Summary, Text, ToolCall, ToolOutput, User
from ebbtide.agent.view.message_text import message_text
from ebbtide.agent.view.provenance import (
    CoveringSummary,
    Occurrence,
    OccurrenceStatus,
    RemovedMessage,
    find_occurrences,
)
from ebbtide.agent.view.references import message_digits
from ebbtide.agent.view.visible import visible_messages
from tests.kit.conversations import conversations

CALL = ToolCall("c1", "read", {"path": "a.py"}, "")
ASKED, CALLED = User((Text("where is the Needle?"),)), Assistant((CALL,), "m")
GAVE = User((ToolOutput("c1", "x\n" * 30 + "needle = 1\n" + "y\n" * 30),))
SEEN = Conversation((ASKED, CALLED, GAVE))
ASKED_AT = f"msg-{message_digits(ASKED)}"
VIEWED = "Viewed a.py – 61 lines"


def test_what_is_in_view_is_visible_until_it_is_masked() -> None:
    asked = Occurrence(ASKED_AT, "visible", "you said")
    assert find_occurrences("needle", SEEN, (), ()) == (asked, Occurrence("r1", "visible", VIEWED))
    masked = replace(SEEN, masked=frozenset({"c1"}))
    assert find_occurrences("NEEDLE", masked, (), ()) == (asked, Occurrence("r1", "masked", VIEWED))
    assert find_occurrences("a.py", masked, (), ())[-1] == Occurrence("r1", "visible", VIEWED)


def test_what_only_the_stored_part_of_an_output_holds_is_stored() -> None:
    assert find_occurrences("hidden", SEEN, (), (), {1}) == (Occurrence("r1", "stored", VIEWED),)
    assert find_occurrences("hidden", replace(SEEN, masked=frozenset({"c1"})), (), (), {1}) == (
        Occurrence("r1", "masked", VIEWED),
    )


LEFT = (RemovedMessage(0, ASKED), RemovedMessage(2, GAVE, (CALL,), 0))
LATER = Conversation((User((Text("go on"),)),), outputs_before=1)


def test_what_left_the_view_is_summarised_or_dropped() -> None:
    first, second = (
        CoveringSummary(1, 2, Summary("", "early work")),
        CoveringSummary(2, 3, Summary(ledger="Files read:\n- a.py")),
    )
    view = replace(LATER, summary=second.summary)
    assert find_occurrences("needle", view, LEFT, (first, second)) == (
        Occurrence(ASKED_AT, "summarised", "you said", "sum-1"),
        Occurrence("r1", "dropped", VIEWED, "sum-2"),
    )
    assert find_occurrences("needle", LATER, LEFT, ()) == (
        Occurrence(ASKED_AT, "dropped", "you said"),
        Occurrence("r1", "dropped", VIEWED),
    )


def test_a_request_that_is_kept_word_for_word_is_visible_and_so_is_the_summary() -> None:
    summary = Summary("", "about the needle", request=ASKED)
    view = replace(LATER, summary=summary)
    assert find_occurrences("needle", view, LEFT[:1], (CoveringSummary(1, 3, summary),)) == (
        Occurrence(ASKED_AT, "visible", "you said, kept word for word"),
        Occurrence("sum-1", "visible", "the summary in view"),
    )


@pytest.mark.parametrize("wanted", ["", "  \n", "never said"])
def test_what_was_never_said_has_no_place(wanted: str) -> None:
    assert find_occurrences(wanted, SEEN, LEFT, ()) == ()


def units(message: Message) -> list[tuple[str, str]]:
    """What can be found of a message: the name of each thing that says something, and what that says."""
    if isinstance(message, Assistant):
        return [("said", message_text(message))]
    texts = [("said", part.text) for part in message.parts if isinstance(part, Text | Note)]
    return texts + [(output.call_id, output.text) for output in message.outputs]


@given(conversations(), st.data())
def test_every_message_of_any_history_is_classified_right(conversation: Conversation, data: st.DataObject) -> None:
    log = conversation.messages
    bounds = [at for at, message in enumerate(log) if at and not (isinstance(message, User) and message.outputs)]
    cuts = sorted(data.draw(st.sets(st.sampled_from(bounds), max_size=3))) if bounds else []
    kinds = [data.draw(st.sampled_from([Summary("", "by a model"), Summary(ledger="by code")])) for _ in cuts]
    summaries = [
        CoveringSummary(number, cut, kind) for number, (cut, kind) in enumerate(zip(cuts, kinds, strict=True), 1)
    ]
    start = cuts[-1] if cuts else 0
    counts = [sum(len(m.outputs) for m in log[:at] if isinstance(m, User)) for at in range(len(log) + 1)]
    ids = [output.call_id for m in log[start:] if isinstance(m, User) for output in m.outputs]
    view = Conversation(
        log[start:],
        kinds[-1] if kinds else Summary(),
        masked=frozenset(data.draw(st.sets(st.sampled_from(ids)))) if ids else frozenset(),
        outputs_before=counts[start],
    )
    texts = [text for message in log for _, text in units(message) if text.strip()]
    assume(texts)
    text = data.draw(st.sampled_from(texts))
    at = data.draw(st.integers(0, len(text) - 1))
    wanted = data.draw(st.just(text[at : at + data.draw(st.integers(1, 12))]) | st.text(max_size=3))
    assume(wanted.strip() and "\n" not in wanted)
    calls = [m.calls if isinstance(m, Assistant) else () for m in log]
    left = [RemovedMessage(i, log[i], calls[i - 1] if i else (), counts[i]) for i in range(start)]

    expected: list[tuple[str, OccurrenceStatus, str]] = []
    needle = wanted.lower()
    for i, message in enumerate(log[:start]):
        covering = next(one for one in summaries if one.start > i)
        fate: OccurrenceStatus = "summarised" if covering.summary.summary else "dropped"
        expected += names(message, needle, fate, counts[i], f"sum-{covering.number}", None)
    if view.summary and needle in view.summary.text.lower():
        expected.append((f"sum-{len(summaries)}", "visible", ""))
    for i, (message, visible) in enumerate(zip(view.messages, visible_messages(view), strict=True), start):
        expected += names(message, needle, "visible", counts[i], "", visible)
    found = find_occurrences(wanted, view, left, summaries)
    assert [(place.ref, place.fate, place.summary_ref) for place in found] == expected
    is_visible = any(needle in said.lower() for visible in visible_messages(view) for _, said in units(visible))
    assert is_visible == any(place.fate == "visible" and not place.ref.startswith("sum") for place in found)


def names(
    message: Message, needle: str, fate: OccurrenceStatus, before: int, by: str, visible: Message | None
) -> list[tuple[str, OccurrenceStatus, str]]:
    """What is to be said of a message; `visible`: as the model sees it, if it does."""
    said = [text for name, text in units(message) if name == "said"]
    found = [(f"msg-{message_digits(message)}", fate, by)] if any(needle in text.lower() for text in said) else []
    if isinstance(message, User):
        for number, output in enumerate(message.outputs, before + 1):
            texts = {o.call_id: o.text for o in visible.outputs} if isinstance(visible, User) else {}
            seen = texts.get(output.call_id, "")
            if needle in seen.lower():
                found.append((f"r{number}", "visible", ""))
            elif needle in output.text.lower():
                found.append((f"r{number}", fate if visible is None else "masked", by))
    return found
