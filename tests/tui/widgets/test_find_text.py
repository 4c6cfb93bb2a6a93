from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.events.view import ContextCompacted
from ebbtide.tui.view.blocks import AnswerText, Call, Notice, UserText
from ebbtide.tui.view.receipts import Compaction
from ebbtide.tui.widgets.text_finder import (
    MatchNumbers,
    MatchSpan,
    TextFinder,
    TextMatch,
    match_spans,
    normalise_block_texts,
)


def test_words_are_found_as_they_are_drawn() -> None:
    blocks = (
        UserText("Why does it fail?"),
        AnswerText("It **fails**\nbecause `parse` fails.\n\n| a | fails |\n|---|---|\n"),
        Call("1", "bash", {"command": "make test"}, "failed", text="nothing\nto  see\nit FAILS because"),
        Notice("interrupted"),
    )
    finder = TextFinder()
    assert finder.match_counts(blocks, "it fails because") == (0, 1, 1, 0)
    assert finder.match_counts(blocks, "FAILS") == (0, 3, 1, 0)
    assert finder.match_counts(blocks, "a fails") == (0, 1, 0, 0)
    nowhere = (0, 0, 0, 0)
    assert (
        finder.match_counts(blocks, "nowhere")
        == finder.match_counts(blocks, "**")
        == finder.match_counts(blocks, " ")
        == nowhere
    )


def test_what_blocks_say_is_read_once_and_may_be_read_ahead() -> None:
    first, second = AnswerText("It **fails**"), UserText("Why?")
    finder = TextFinder()
    finder.cache_texts(normalise_block_texts([first]))
    assert finder.uncached_blocks([first, second]) == [second]
    assert (finder.match_counts([first, second], "it fails"), finder.uncached_blocks([first, second])) == ((1, 0), [])
    assert (finder.match_counts([second], "why"), finder.uncached_blocks([first, second])) == ((1,), [first])


def test_what_a_receipt_says_is_found() -> None:
    assert TextFinder().match_counts((Compaction(ContextCompacted(9_000, 900, 12, 3, ("summary",))),), "9,000") == (1,)


@given(st.lists(st.integers(0, 4)))
def test_places_are_counted_through(counts: list[int]) -> None:
    places = MatchNumbers(counts)
    listed = [TextMatch(row, nth) for row, count in enumerate(counts) for nth in range(count)]
    assert [places.match_at(index) for index in range(len(places))] == listed
    for row in range(len(counts) + 1):
        assert places.count_up_to(row) == sum(place.row_index <= row for place in listed)
        for nth in range(5):
            place = TextMatch(row, nth)
            assert places.index_of(place) == (listed.index(place) if place in listed else None)


def test_words_are_marked_where_they_are_drawn() -> None:
    lines = ["  It fails", "  because parse FAILS.", "", "  │ fa`il`s"]
    assert match_spans(lines, "fails") == ((MatchSpan(0, 5, 10),), (MatchSpan(1, 16, 21),), (MatchSpan(3, 4, 11),))
    assert match_spans(lines, "it  fails *because*") == ((MatchSpan(0, 2, 11), MatchSpan(1, 2, 9)),)
    assert match_spans(lines, "") == ()


def test_a_character_that_is_longer_in_lower_case_moves_nothing() -> None:
    assert match_spans(["İİ here"], "here") == ((MatchSpan(0, 3, 7),),)
