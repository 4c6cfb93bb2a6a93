from hypothesis import given
from hypothesis import strategies as st

from agent.context.attachments import attached_in, file_note, folder_note, is_told, picture_note
from agent.context.mentions import pasted
from agent.messages import Image, Note, Text, UserPart
from tools.truncate import printable

names = st.text(st.characters(exclude_characters="\n"), min_size=1).map(lambda name: f"@{name}")
entries = st.lists(st.text(st.characters(exclude_characters="\n()"), min_size=1), min_size=1)


@given(names, st.lists(st.text(st.characters(exclude_characters="\n(")), min_size=1))
def test_a_file_says_how_many_lines_of_it_there_are(name: str, lines: list[str]) -> None:
    plural = "" if len(lines) == 1 else "s"
    told = f"`{printable(name)}` ({len(lines):,} line{plural}"
    text = "\n".join(lines)
    assert attached_in([file_note(name, text)]) == (f"{told})",)
    assert attached_in([file_note(name, f"{text}\n(lines 2-9 of 99; go on with offset=10)")]) == (f"{told} of it)",)


@given(names, entries, st.integers(0, 10**7))
def test_a_folder_says_how_many_entries_it_has(name: str, entries: list[str], left_out: int) -> None:
    count = len(entries) + left_out
    told = f"`{printable(name)}` (folder, {count:,} entr{'y' if count == 1 else 'ies'})"
    assert attached_in([folder_note(name, entries, left_out)]) == (told,)
    assert attached_in([folder_note(name, (), 0)]) == (f"`{printable(name)}` (folder, 0 entries)",)


@given(st.lists(st.text().map(Text) | st.text().map(Note) | st.just(Image("image/png", "x")) | names.map(picture_note)))
def test_any_parts_can_be_looked_through(parts: list[UserPart]) -> None:
    told = attached_in(parts)
    assert len(told) <= sum(isinstance(part, Note) for part in parts)
    for index, part in enumerate(parts):
        if isinstance(part, Image) and index and isinstance(parts[index - 1], Image | Text):
            assert not is_told(parts, index)


@given(names, st.text())
def test_what_was_pasted_is_not_attached(name: str, text: str) -> None:
    assert attached_in([pasted(name, text), Text(f"`{name}` holds:\n\n{text}")]) == ()
