from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.compaction.plan import plan_compaction
from ebbtide.agent.messages import Assistant, Conversation, Note, Text, ToolCall, ToolOutput, User
from ebbtide.agent.prompt.mentions import (
    MentionInterpretation,
    attachment_byte_limit,
    find_mentions,
    pasted_note,
    path_mention,
)
from ebbtide.agent.view.long_texts import truncate_part

words = st.text(st.sampled_from("ab@:./-10 \n\"'é日,"), max_size=40)


def test_paths_are_named_alone_in_sentences_with_lines_and_in_quotation_marks() -> None:
    assert find_mentions("see @src/a.py, and (@b.py:10-50).") == (
        (MentionInterpretation("src/a.py,"), MentionInterpretation("src/a.py")),
        (
            MentionInterpretation("b.py:10-50)."),
            MentionInterpretation("b.py:10-50"),
            MentionInterpretation("b.py", 10, 50),
        ),
    )
    assert find_mentions('@"a b.txt":7 @"c d"') == (
        (MentionInterpretation("a b.txt", 7, 7, is_certain=True),),
        (MentionInterpretation("c d", is_certain=True),),
    )


def test_addresses_of_people_name_nothing() -> None:
    assert find_mentions("write to me@example.com or see https://x.org/@you and a@b") == ()


def test_lines_that_run_backwards_are_one_line() -> None:
    assert find_mentions("@a:50-10")[0][-1] == MentionInterpretation("a", 50, 50)
    assert find_mentions("@a:0")[0][-1] == MentionInterpretation("a", 1, 1)


@given(words)
def test_any_text_can_be_read(text: str) -> None:
    for readings in find_mentions(text):
        assert readings
        assert all(reading.path and reading.first_line >= 1 for reading in readings)


def test_blanks_and_quotation_marks_are_part_of_a_path_as_a_shell_has_them() -> None:
    named = [
        (r"read @my\ notes.md, please", "my notes.md"),
        ("""compare @quo'te".py with""", """quo'te".py"""),
        (r"@it\'s\ \(1\).txt:3-4", "it's (1).txt"),
        (r"@quo'te\".py", """quo'te".py"""),
        ('["@a.py","@b.py"]', "b.py"),
        (r"@src\ and", "src\\"),
    ]
    for text, path in named:
        assert path in [reading.path for readings in find_mentions(text) for reading in readings], text
    assert MentionInterpretation("a b.txt", 3, 4) in find_mentions(r"@a\ b.txt:3-4")[0]


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_what_is_written_for_a_path_names_it(path: str) -> None:
    found = find_mentions(f"look at {path_mention(path)}")
    assert any(reading.path == path for readings in found for reading in readings)


@given(st.text(max_size=400), st.integers(100, 400))
def test_a_note_is_cut_to_what_has_room_and_keeps_all_of_it(text: str, most: int) -> None:
    note = pasted_note("[pasted 3 lines #1]", text)
    cut = truncate_part(note, most, "msg-12345678")
    assert cut.kind == "pasted"
    if cut == note:
        assert len(note.text.encode("utf-8", "surrogatepass")) <= most
    else:
        assert cut.whole == note.text
        assert "msg-12345678" in cut.text
        assert len(cut.text.encode("utf-8", "surrogatepass")) <= most + 100


def test_attachments_take_a_part_of_the_window() -> None:
    assert (attachment_byte_limit(8_000), attachment_byte_limit(1_000_000)) == (6_000, 120_000)
    assert truncate_part(Note("short"), 10, "") == Note("short")


def test_the_request_that_a_compaction_keeps_has_no_more_than_was_sent() -> None:
    asked = User((Text("look"), Note("its ends", "all of a long paste")))
    steps = tuple(part for number in range(4) for part in _step(number))
    plan = plan_compaction(Conversation((asked, *steps)), 10)
    assert plan is not None
    assert plan.request == User((Text("look"), Note("its ends")))


def _step(number: int) -> tuple[Assistant, User]:
    call = ToolCall(f"c{number}", "bash", {"command": "make"})
    return Assistant((call,), "scripted/demo"), User((ToolOutput(call.id, "x" * 400),))
