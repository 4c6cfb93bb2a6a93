"""Where a text stands in a session, and whether the model sees it, in a real database."""

from dataclasses import replace

import pytest

from ebbtide.agent.messages import Conversation, Text, User
from ebbtide.agent.view.provenance import Occurrences
from ebbtide.agent.view.references import message_digits
from tests.kit.archived_sessions import HERE, THERE, Sessions


async def fates(sessions: Sessions, text: str, view: Conversation | None = None) -> list[tuple[str, str, str]]:
    """What has become of each place: its reference without a message's digits, its fate and the summary."""
    found = await sessions.recall().locate_text(text, view or sessions.views[HERE])
    return [
        ("msg" if place.ref.startswith("msg-") else place.ref, place.fate, place.summary_ref)
        for place in found.occurrences
    ]


async def test_each_place_says_what_has_become_of_it(sessions: Sessions) -> None:
    await sessions.says("find the needle")
    await sessions.runs("bash", "a needle there\n" * 10, command="ls")
    await sessions.replies("a needle was there")
    await sessions.compacts("the work so far")
    await sessions.says("another needle, please")
    await sessions.runs("bash", "start [...]", whole=b"start\n" + b"much\n" * 5000 + b"needle\n", command="make")
    await sessions.runs("bash", "filler\n" * 30 + "needle\n", command="cat")
    left = [("msg", "summarised", "sum-1"), ("r1", "summarised", "sum-1"), ("msg", "summarised", "sum-1")]
    here = [("msg", "visible", ""), ("r2", "stored", ""), ("r3", "visible", "")]
    assert await fates(sessions, "needle") == left + here
    calls = frozenset(call.id for message in sessions.views[HERE].messages for call in getattr(message, "calls", ()))
    masked = replace(sessions.views[HERE], masked=calls)
    assert await fates(sessions, "NEEDLE", masked) == [*left, here[0], ("r2", "masked", ""), ("r3", "masked", "")]


async def test_each_message_is_stood_for_by_the_summary_that_took_it_out(sessions: Sessions) -> None:
    await sessions.says("first word")
    await sessions.replies("second word")
    await sessions.says("third word")
    await sessions.compacts("early", keep=1)
    await sessions.replies("fourth word")
    await sessions.compacts("later", keep=1)
    by = [("msg", "summarised", "sum-1"), ("msg", "summarised", "sum-1"), ("msg", "summarised", "sum-2")]
    assert await fates(sessions, "word") == [*by, ("msg", "visible", "")]


@pytest.mark.parametrize(
    "text", ["foo(bar)", "o(bar), b", "bar", "測試", "試這", "foo(bar), baz\n    測試這個", "z\n    測"]
)
async def test_a_text_may_begin_and_end_inside_a_word(sessions: Sessions, text: str) -> None:
    await sessions.says("call foo(bar), baz\n    測試這個")
    await sessions.compacts("early")
    assert await fates(sessions, text) == [("msg", "summarised", "sum-1")]


async def test_what_another_session_said_was_never_seen(sessions: Sessions) -> None:
    await sessions.says("needle", THERE)
    await sessions.says("go")
    assert await fates(sessions, "needle") == await fates(sessions, "  ") == []


async def test_without_a_view_the_one_that_was_written_down_counts(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("bash", "needle", command="ls")
    await sessions.compacts("early")
    found = await sessions.recall().locate_text("needle")
    assert [(place.ref, place.fate, place.summary_ref) for place in found.occurrences] == [
        ("r1", "summarised", "sum-1")
    ]


async def test_what_was_not_searched_is_named_unless_the_text_was_found_there(sessions: Sessions) -> None:
    filler = b"filler line\n" * 100_000
    await sessions.says("find the needle")
    await sessions.runs("bash", "filler\n[...]", whole=filler, command="make")
    await sessions.runs("bash", "a needle\n[...]", whole=b"a needle\n" + filler, command="make again")
    view = sessions.views[HERE]
    note = "only the first 262,144 bytes of {} are searched here; `/archive` shows whole outputs"
    found = await sessions.recall().locate_text("needle", view)
    assert [place.source for place in found.occurrences] == ["you said", "Ran: make again – done: a needle [...]"]
    assert found.unsearched_notes == (note.format("r1"),)
    assert await sessions.recall().locate_text("nowhere", view) == Occurrences((), (note.format("r2, r1"),))
    assert await sessions.recall().locate_text(" ", view) == Occurrences()


async def test_a_message_that_was_damaged_later_hides_no_other_place(sessions: Sessions) -> None:
    await sessions.says("first word")
    await sessions.replies("second word")
    await sessions.says("third")
    await sessions.compacts("early", keep=1)
    assert len(await fates(sessions, "word")) == 2
    await sessions.thread.run(sessions.store.query, "update messages set body = '{' where position = 0")
    await sessions.thread.run(sessions.store.query, "update summaries set body = '{'")
    assert len(await fates(sessions, "word")) == 1


@pytest.mark.parametrize("written", ["r{}", "[r{}]", "[recall:r{}]", "`R{}`", "r{}:L1-2"])
async def test_a_reference_is_answered_by_what_became_of_it(sessions: Sessions, written: str) -> None:
    await sessions.says("please run them")
    await sessions.runs("bash", "ok\nexit code 0", command="old")
    await sessions.compacts("They pass.")
    await sessions.says("and the new ones")
    await sessions.runs("bash", "r1 and r2 are named here\n" * 100, command="one")
    await sessions.runs("bash", "only the beginning", whole=b"row\n" * 5_000, command="two")
    await sessions.runs("read", "1\thello", path="a.py")
    view = sessions.views[HERE]
    (masked,) = [output.call_id for message in view.messages if isinstance(message, User) for output in message.outputs
                 if output.text.startswith("r1")]  # fmt: skip
    view = replace(view, masked=frozenset({masked}))
    fates = [(await sessions.recall().locate_text(written.format(number), view)).occurrences for number in range(1, 5)]
    assert [[(place.ref, place.fate) for place in places] for places in fates] == [
        [("r1", "summarised")], [("r2", "masked")], [("r3", "stored")], [("r4", "visible")],
    ]  # fmt: skip


async def test_a_message_is_found_by_its_reference(sessions: Sessions) -> None:
    await sessions.says("please run them")
    await sessions.compacts("Nothing yet.")
    await sessions.says("and the new ones")
    for text, fate in (("please run them", "summarised"), ("and the new ones", "visible")):
        ref = f"msg-{message_digits(User((Text(text),)))}"
        (place,) = (await sessions.recall().locate_text(ref, sessions.views[HERE])).occurrences
        assert (place.ref, place.fate, place.source) == (ref, fate, "you said")
    assert (await sessions.recall().locate_text("msg-00000000", sessions.views[HERE])).occurrences == ()
