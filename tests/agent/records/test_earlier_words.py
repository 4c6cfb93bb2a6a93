"""What records of earlier versions say in words alone. The words here are theirs, and stay as they are."""

import json

import pytest

from agent.context.offload import own_words
from agent.messages import Note, Stored, ToolOutput
from agent.records.message_rows import decode_part, encode_part

HEADING = '[Tool result stored — 9,000 bytes, 90 lines from "bash".'
SEEN = 'Use the "read_result" tool with ref_id="r1" to read specific portions.'
CUT = "[… 1,234 characters left out: the context window is nearly full; read_result with ref_id=… shows it …]"


@pytest.mark.parametrize(
    ("text", "words", "frame"),
    [
        (f"{HEADING}\nhead]\n{SEEN}\nexit code 9", "head\nexit code 9", "exit code 9"),
        (f"{HEADING}\nhead]\n{SEEN}", "head", ""),
        (f"{HEADING}\nhead\n\nmatches: 3: an error\n7: failed]\n{SEEN}\na\nb", "head\n\na\nb", "a\nb"),
        (f"{HEADING}\nhe\n{CUT}\nnd]\n{SEEN}\nexit code 9", "he\nnd\nexit code 9", "exit code 9"),
        (f"{HEADING}\nhe\n{CUT}\nto read specific portions.", "he\nto read specific portions.", ""),
        (f"he\n{CUT}\nad", "he\nad", ""),
        ("all of it\nexit code 9", "all of it\nexit code 9", ""),
    ],
)
def test_an_output_of_an_earlier_version_says_what_it_said_itself(text: str, words: str, frame: str) -> None:
    stored = {"digest": "d", "size": 9000, "lines": 90}
    read = decode_part({"type": "output", "call_id": "c", "text": text, "stored": stored})
    assert isinstance(read, ToolOutput)
    assert (own_words(read.text, read.inserted), read.frame, read.text) == (words, frame, text)
    assert decode_part(json.loads(json.dumps(encode_part(read)))) == read


def test_nothing_is_read_out_of_the_words_of_a_record_of_now() -> None:
    output = ToolOutput("c", f"{HEADING}\nhead]\n{SEEN}\nexit code 9", stored=Stored("d", 9000, 90))
    assert decode_part(json.loads(json.dumps(encode_part(output)))) == output


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("[The user brings `r1:L2-3` back into view:]\nrow", {"kind": "brought", "name": "r1:L2-3"}),
        ("[The permission mode is now `auto`.]", {"kind": "told"}),
    ],
)
def test_a_note_of_an_earlier_version_is_of_the_kind_that_its_words_say(text: str, note: dict[str, str]) -> None:
    read = decode_part({"type": "note", "text": text})
    assert encode_part(read) == {"type": "note", "text": text, **note}
    assert decode_part({"type": "note", "text": text, "kind": "told"}) == Note(text)
