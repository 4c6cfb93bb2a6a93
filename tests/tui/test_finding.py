from tui.blocks import AnswerText, Call, Notice, UserText
from tui.finding import Finder, Place, Span, spans_of
from tui.receipts import Compaction


def test_words_are_found_as_they_are_drawn() -> None:
    blocks = (
        UserText("Why does it fail?"),
        AnswerText("It **fails**\nbecause `parse` fails.\n\n| a | fails |\n|---|---|\n"),
        Call("1", "bash", {"command": "make test"}, "failed", text="nothing\nto  see\nit FAILS because"),
        Notice("interrupted"),
    )
    finder = Finder()
    assert finder.places(blocks, "it fails because") == (Place(1, 0), Place(2, 0))
    assert finder.places(blocks, "FAILS") == (Place(1, 0), Place(1, 1), Place(1, 2), Place(2, 0))
    assert finder.places(blocks, "a fails") == (Place(1, 0),)
    assert finder.places(blocks, "nowhere") == finder.places(blocks, "**") == finder.places(blocks, " ") == ()


def test_what_a_receipt_says_is_found() -> None:
    assert Finder().places((Compaction(9_000, 900, 12, 3, ("summary",)),), "9,000") == (Place(0, 0),)


def test_words_are_marked_where_they_are_drawn() -> None:
    lines = ["  It fails", "  because parse FAILS.", "", "  │ fa`il`s"]
    assert spans_of(lines, "fails") == ((Span(0, 5, 10),), (Span(1, 16, 21),), (Span(3, 4, 11),))
    assert spans_of(lines, "it  fails *because*") == ((Span(0, 2, 11), Span(1, 2, 9)),)
    assert spans_of(lines, "") == ()


def test_a_character_that_is_longer_in_lower_case_moves_nothing() -> None:
    assert spans_of(["İİ here"], "here") == ((Span(0, 3, 7),),)
