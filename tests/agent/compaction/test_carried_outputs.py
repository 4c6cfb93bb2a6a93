"""Files and search results that stay in view over a summary."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.compaction.carried_outputs import carried_outputs, with_carried_outputs
from ebbtide.agent.compaction.plan import apply_compaction, plan_at
from ebbtide.agent.compaction.receipt import build_receipt
from ebbtide.agent.compaction.room import conversation_tokens
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.rows import decode_snapshot, encode_snapshot
from ebbtide.agent.view.items import PinnedPart, view_parts
from ebbtide.agent.view.visible import CARRIED_HEADING, summary_messages
from tests.kit.conversations import conversations

GO = User((Text("go"),))


def read(number: int, path: str, lines: int = 40) -> tuple[Message, ...]:
    text = "\n".join(f"{line}\tline {line} of {path}, as it stands there" for line in range(1, lines + 1))
    return step(number, "read", {"path": path}, text)


def step(number: int, name: str, arguments: dict[str, object], text: str = "ok") -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", name, arguments)
    return Assistant((call,)), User((ToolOutput(call.id, text),))


def said(*steps: tuple[Message, ...]) -> Conversation:
    return Conversation((GO,)).plus(*(message for one in steps for message in one))


def carried(conversation: Conversation, most: int = 6_000) -> list[str]:
    return [one.key for one in carried_outputs(conversation, len(conversation.messages) - 2, most)]


def test_reads_stay_of_files_that_were_not_touched_since() -> None:
    whole = said(
        read(1, "a.py"),
        read(2, "b.py"),
        step(3, "bash", {"command": "make"}, "word " * 400),
        step(4, "edit", {"path": "./b.py", "old": "x", "new": "y"}),
        read(5, "c.py"),
        read(6, "a.py", 3),
        read(7, "d.py"),
        step(8, "bash", {"command": "true"}),
    )
    assert carried(whole) == ["r5", "r7"], "not r1 and r2, which were read or changed since, nor r6, a stub's length"
    assert carried(replace(whole, masked=frozenset({"c5"}))) == ["r7"]
    assert carried(replace(whole, pinned=frozenset({"r7"}))) == ["r5"]


def test_those_needed_most_for_their_size_stay_until_they_are_old() -> None:
    many = said(*(read(number, f"{number}.py") for number in range(9)), step(9, "bash", {"command": "true"}))
    assert carried(many) == [f"r{number}" for number in range(1, 10)]
    assert carried(many, 1_500) == ["r8", "r9"], "the newest are needed most"
    nothing = [step(number, "bash", {"command": "true"}) for number in range(1, 80)]
    kept_for = next(count for count in range(80) if not carried(said(read(0, "a.py"), *nothing[: count + 1])))
    assert 5 < kept_for < 60
    mixed = said(read(0, "a.py", 700), read(1, "b.py", 30), *nothing[2:4])
    assert carried(mixed, 1_000) == ["r2"], "a large one leaves no room for others"


def test_parts_of_files_and_matches_that_a_command_printed_stay_too() -> None:
    text = "\n".join(f"line {line} of what was printed, as it stands there" for line in range(40))
    whole = said(
        step(1, "bash", {"command": "sed -n 1,40p a.py"}, text),
        step(2, "grep", {"pattern": "line", "path": "."}, text.upper()),
        step(3, "bash", {"command": "make"}, text),
        step(4, "bash", {"command": "git diff HEAD"}, text.title()),
        step(5, "bash", {"command": "true"}),
    )
    assert carried(whole) == ["r1", "r2", "r4"]
    again = whole.plus(*step(6, "bash", {"command": "sed -n 1,40p a.py"}, text), *step(7, "bash", {"command": "true"}))
    assert carried(again) == ["r2", "r4", "r6"], "the first and the last of them printed the same"


def test_what_a_command_printed_of_a_file_leaves_once_the_file_was_changed() -> None:
    text = "\n".join(f"line {line} of what was printed, as it stands there" for line in range(40))
    looked = said(
        step(1, "bash", {"command": "cat a.py"}, text),
        step(2, "bash", {"command": "cat b.py"}, text.upper()),
        step(3, "bash", {"command": "true"}),
    )
    assert carried(looked) == ["r1", "r2"]
    changed = looked.plus(*step(4, "edit", {"path": "a.py", "old": "x", "new": "y"}))
    assert carried(changed) == ["r2"], "a change among the newest messages counts, too"


def compact(whole: Conversation, cut: int) -> Conversation:
    caps = CompactionCaps(ledger=900)
    plan = with_carried_outputs(whole, plan_at(whole, cut), caps)
    return apply_compaction(plan, Draft("id 7", "All was looked at."), caps)


def test_a_summary_shows_them_and_they_leave_with_the_next() -> None:
    whole = said(read(1, "a.py", 700), read(2, "b.py"), step(3, "bash", {"command": "make"}, "word " * 20_000))
    whole = whole.plus(*step(4, "bash", {"command": "true"}))
    after = compact(whole, 7)
    (one,) = after.summary.carried
    assert (one.key, one.title) == ("r2", "Viewed b.py – 40 lines [recall:r2]")
    (opening,) = summary_messages(after.summary)
    texts = [part.text for part in opening.parts if isinstance(part, Text)]
    place = texts.index(CARRIED_HEADING)
    assert texts[place + 1] == f"### {one.title}"
    assert texts[place + 2].startswith("1\tline 1 of b.py")
    assert [part.is_pinned for part in view_parts(after) if isinstance(part, PinnedPart)] == [False]
    assert (one.title, "kept") in [(item.item, item.fate) for item in build_receipt(whole, after, ("summary",))]
    found = decode_snapshot(encode_snapshot(after, 3))
    assert found is not None
    assert found[1].summary == after.summary
    later = compact(after.plus(*step(5, "bash", {"command": "make"}, "word " * 4_000), *step(6, "bash", {})), 4)
    assert (later.summary.carried, later.summary.summary) == ((), "All was looked at.")


def test_one_that_was_pinned_stays_over_the_next_summary_too() -> None:
    whole = said(read(1, "b.py"), step(2, "bash", {"command": "make"}, "word " * 20_000), step(3, "bash", {}))
    after = compact(whole, 5)
    pinned = replace(after, pinned=frozenset({"r1"})).plus(*step(4, "bash", {}, "word " * 4_000), *step(5, "bash", {}))
    assert [one.key for one in compact(pinned, 4).summary.pinned] == ["r1"]


def test_where_there_is_little_room_some_stay_and_the_summary_still_saves() -> None:
    reads = [read(number, f"{number}.py", 100) for number in range(1, 5)]
    whole = said(*reads, step(5, "bash", {"command": "make"}, "word " * 2_000), step(6, "bash", {"command": "true"}))
    caps = CompactionCaps()
    plan = with_carried_outputs(whole, plan_at(whole, len(whole.messages) - 2), caps)
    assert [one.key for one in plan.carried_outputs] == ["r4"], "all of them would leave nothing to save"
    assert "[recall:r5]" not in plan.output_names, "nothing in it is a name"
    after = apply_compaction(plan, Draft("", ""), caps)
    assert conversation_tokens(after) + caps.summary + caps.retain < 0.9 * conversation_tokens(whole)
    small = said(read(1, "a.py"), read(2, "b.py"), step(3, "bash", {"command": "true"}))
    assert with_carried_outputs(small, plan_at(small, 5), caps).carried_outputs == ()


@given(conversations(), st.integers(0, 8_000))
def test_what_stays_is_what_was_shown_and_takes_no_more_than_it_may(conversation: Conversation, most: int) -> None:
    cut = len(conversation.messages)
    carried = carried_outputs(conversation, cut, most)
    visible = {part.key: part.visible_form for part in view_parts(conversation)}
    for one in carried:
        output = visible[one.key]
        assert isinstance(output, ToolOutput)
        assert one.parts == (Text(output.text),)
