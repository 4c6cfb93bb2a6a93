"""What names the outputs that leave with a summary."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.compaction.carried_outputs import list_dropped_outputs, with_carried_outputs
from ebbtide.agent.compaction.plan import apply_compaction, plan_at
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Assistant, CarriedPart, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.rows import decode_snapshot, encode_snapshot
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.visible import NAMES_HEADING, summary_messages
from tests.kit.conversations import conversations

GO = User((Text("go"),))
WORDS = "words that say nothing " * 40


def step(number: int, name: str, arguments: dict[str, object], text: str = "ok") -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", name, arguments)
    return Assistant((call,)), User((ToolOutput(call.id, text),))


def said(*steps: tuple[Message, ...]) -> Conversation:
    return Conversation((GO,)).plus(*(message for one in steps for message in one))


WHOLE = said(
    step(1, "bash", {"command": "make"}, f"{WORDS} build_one_part"),
    step(2, "grep", {"pattern": "part", "path": "."}, f"{WORDS} find_this_part said_already"),
    step(3, "bash", {"command": "true"}, "short_as_it_is"),
    step(4, "grep", {"pattern": "more", "path": "."}, f"{WORDS} find_more_parts find_this_part"),
    step(5, "edit", {"path": "a.py"}, f"{WORDS} never_wanted_again"),
    step(6, "bash", {"command": "true"}),
)


def lines(conversation: Conversation, most: int = 1_500, stays: frozenset[str] = frozenset()) -> list[str]:
    cut = len(conversation.messages) - 2
    return list_dropped_outputs(conversation, cut, most, stays, "said_already").splitlines()


def test_each_output_has_a_line_with_names_that_nothing_above_it_says_the_most_wanted_first() -> None:
    assert lines(WHOLE) == [
        "- Searched 'more' in . – 1 match [recall:r4] names in it: find_more_parts find_this_part",
        "- Edited a.py [recall:r5] names in it: never_wanted_again",
        "- Ran: make – done: words that say nothing words that say nothing words that say nothing words that… "
        "[recall:r1] names in it: build_one_part",
    ]
    assert [line.split("recall:")[1][:2] for line in lines(WHOLE, stays=frozenset({"r4"}))] == ["r2", "r5", "r1"]
    assert lines(replace(WHOLE, masked=frozenset({"c1", "c4"}), pinned=frozenset({"r2"}))) == lines(WHOLE)


@given(conversations(), st.integers(0, 400), st.data())
def test_they_take_no_more_than_there_is_room_for(conversation: Conversation, most: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(conversation.messages)))
    found = list_dropped_outputs(conversation, cut, most, frozenset(), "")
    assert estimate_text(found) <= most
    assert list_dropped_outputs(conversation, cut, 1 << 20, frozenset(), "").startswith(found)


def test_a_summary_shows_them_and_keeps_them_with_the_session() -> None:
    whole = said(
        step(1, "bash", {"command": "make"}, f"{WORDS * 40} build_one_part"),
        *[step(2, "bash", {"command": "true"})] * 2,
    )
    caps = CompactionCaps(ledger=900)
    after = apply_compaction(
        with_carried_outputs(whole, plan_at(whole, 5), caps), Draft("id 7", "All was looked at."), caps
    )

    (opening,) = summary_messages(after.summary)
    names = next(part.text for part in opening.parts if isinstance(part, Text) and part.text.startswith(NAMES_HEADING))
    assert names == f"{NAMES_HEADING}\n{after.summary.names}"
    assert after.summary.names.endswith("[recall:r1] names in it: build_one_part")
    found = decode_snapshot(encode_snapshot(after, 5))
    assert found is not None
    assert found[1].summary == after.summary


def test_a_ledger_alone_has_none() -> None:
    after = apply_compaction(with_carried_outputs(WHOLE, plan_at(WHOLE, 5), CompactionCaps()), None, CompactionCaps())
    assert after.summary.names == ""


def test_lines_of_the_earlier_summary_follow_where_there_is_room() -> None:
    earlier = replace(WHOLE.summary, names="- Ran: old – exit 0 [recall:r0] names in it: old_one_part")
    both = lines(replace(WHOLE, summary=earlier))
    assert both == [*lines(WHOLE), earlier.names]
    room = estimate_text("\n".join(lines(WHOLE))) + len(lines(WHOLE))
    assert lines(replace(WHOLE, summary=earlier), room) == lines(WHOLE)


def test_outputs_that_only_the_earlier_summary_carried_are_named_before_its_lines() -> None:
    text = Text(f"{WORDS} seen_in_file said_already")
    carried = tuple(CarriedPart(key, f"Viewed {key}.py", key, (text,)) for key in ("r1", "r2"))
    earlier = replace(WHOLE.summary, carried=carried, names="- Ran: old – exit 0 [recall:r0] names in it: old_one_part")
    both = lines(replace(WHOLE, summary=earlier, outputs_before=2), stays=frozenset({"r2"}))
    assert both[-2:] == ["- Viewed r1.py [recall:r1] names in it: seen_in_file said_already", earlier.names]
    assert len(both) == len(lines(WHOLE)) + 2


def test_an_earlier_line_loses_the_names_that_a_newer_one_has() -> None:
    earlier = replace(
        WHOLE.summary,
        names="- Ran: old – exit 0 [recall:r0] names in it: build_one_part old_one_part …\n"
        "- Ran: older – exit 0 [recall:r9] names in it: find_this_part …",
    )
    both = lines(replace(WHOLE, summary=earlier))
    assert both == [*lines(WHOLE), "- Ran: old – exit 0 [recall:r0] names in it: old_one_part …"]
