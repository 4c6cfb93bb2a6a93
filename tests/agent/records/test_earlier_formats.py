"""What records of earlier versions say in words alone. The words here are theirs, and stay as they are."""

import json
from dataclasses import replace

import pytest

from ebbtide.agent.messages import Note, StoredBlob, ToolOutput
from ebbtide.agent.records.message_rows import decode_part, encode_part
from ebbtide.agent.view.previews import text_without_insertions
from ebbtide.tools.outputs.new_problems import NEW_PROBLEMS, NewProblems
from ebbtide.tools.process.state import ProgramState

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
    assert (text_without_insertions(read.text, read.inserted), read.frame, read.text) == (words, frame, text)
    assert decode_part(json.loads(json.dumps(encode_part(read)))) == read


LINES = ("a.py:1:1 error: wrong [words]", "a.py:2:1 error: wrong [words]")


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("edited `a.py`, line 1", None),
        ("\n".join(("edited `a.py`, line 1", NEW_PROBLEMS, *LINES)), NewProblems(2, LINES)),
        (
            "\n".join(("edited `a.py`, line 1", NEW_PROBLEMS, *LINES, "and 1,200 errors and 2 warnings more")),
            NewProblems(1_204, (*LINES, "and 1,200 errors and 2 warnings more")),
        ),
    ],
)
def test_what_a_change_brought_is_known_of_earlier_versions_too(text: str, problems: NewProblems | None) -> None:
    read = decode_part({"type": "output", "call_id": "c", "text": text})
    assert read == ToolOutput("c", text, problems=problems)
    for output in (read, ToolOutput("c", text)):
        assert decode_part(json.loads(json.dumps(encode_part(output)))) == output


def test_nothing_is_read_out_of_the_words_of_a_record_of_now() -> None:
    output = ToolOutput("c", f"{HEADING}\nhead]\n{SEEN}\nexit code 9", stored=StoredBlob("d", 9000, 90))
    assert decode_part(json.loads(json.dumps(encode_part(output)))) == output


@pytest.mark.parametrize(
    ("text", "ending", "program"),
    [
        ("one\nexit code 9", "", ProgramState("exit code 9", 9)),
        ("one\nexit code 9\n[A hook notes:]\nfine", "exit code 9", ProgramState("exit code 9", 9)),
        ("no output\nexit code 0", "exit code 0", ProgramState("exit code 0", 0, is_silent=True)),
        ("one\nkilled by SIGSEGV", "killed by SIGSEGV", ProgramState("killed by SIGSEGV", signal=11)),
        ("one\nkilled by signal 40", "", ProgramState("killed by signal 40", signal=40)),
        ("one\nkilled by SIGNEVER", "", ProgramState("killed by SIGNEVER", signal=9)),
        (
            "one\nexit code 0\nwhat it started in the background still runs, until the session ends",
            "exit code 0\nwhat it started in the background still runs, until the session ends",
            ProgramState("exit code 0\nwhat it started in the background still runs, until the session ends", 0),
        ),
        (
            "one\nended: not finished after 5 s; give a longer `timeout`, or set `background`",
            "",
            ProgramState("ended: not finished after 5 s; give a longer `timeout`, or set `background`", limit=5),
        ),
        (
            "job-1 is running; bash_output gives what it prints, bash_kill ends it",
            "",
            ProgramState("job-1 is running; bash_output gives what it prints, bash_kill ends it", job="job-1"),
        ),
        (
            "no new output\njob-1: still running",
            "job-1: still running",
            ProgramState("job-1: still running", job="job-1", is_silent=True),
        ),
        ("one\njob-2: exit code 3", "job-2: exit code 3", ProgramState("job-2: exit code 3", 3, job="job-2")),
        ("it says exit code 9 in a line", "", None),
    ],
)
def test_how_a_program_ended_is_known_of_earlier_versions_too(
    text: str, ending: str, program: ProgramState | None
) -> None:
    fields = {"ending": ending} if ending else {}
    read = decode_part({"type": "output", "call_id": "c", "text": text, **fields})
    assert read == ToolOutput("c", text, program=program)
    assert decode_part(json.loads(json.dumps(encode_part(read)))) == read


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("[The user brings `r1:L2-3` back into view:]\nrow", Note("", "", "brought", "r1:L2-3")),
        ("What the user pasted as [pasted #1]:\n\na:\n\nb", Note("", "", "pasted", "[pasted #1]", 38)),
        ("What the user piped in:\n\na", Note("", "", "piped", "", 25)),
        ("`@a.py` holds:\n\n1\tone\n2\ttwo", Note("", "", "file", "@a.py", 16, "2 lines")),
        ("`@a.py` holds:\n\n1\tone\n(lines 1-1 of 9; …)", Note("", "", "file", "@a.py", 16, "1 line of it")),
        ("The folder `@s` holds:\n\na\nb/", Note("", "", "folder", "@s", 24, "folder, 2 entries")),
        ("The folder `@s` holds:\n\na\n(1,000 more: `glob` lists them)",
         Note("", "", "folder", "@s", 24, "folder, 1,001 entries")),
        ("The folder `@s` holds:\n\nnothing that git does not ignore",
         Note("", "", "folder", "@s", 24, "folder, 0 entries")),
        ("`@dot.png` is this picture:", Note("", "", "picture", "@dot.png")),
        ('[What came with this message is kept under ref_id="msg-1a2b3c4d".]', Note("", "", "origin", "msg-1a2b3c4d")),
        ("[The newest step took more than the whole window, so it is not shown. What its calls gave back:\n- a]",
         Note("", "", "step")),
        ("[The user says this while you work. Take it into account, and go on with what you were asked.]",
         Note("", "", "meanwhile")),
        ("The context window is full, so this is the final turn. No other tool runs any more: call …",
         Note("", "", "final")),
        ("[Context: 83% used. You can call compact_context …]", Note("", "", "context", "83")),
        ("[Context: 41% used now. What was said of it before …]", Note("", "", "context", "41")),
        ("[1 tool deferred to save context. Use tool_search to find them.]", Note("", "", "deferred", "1")),
        ("[3 tools deferred to save context. Search for them, and call …]", Note("", "", "searched", "3")),
        ("[No tools are deferred any more.]", Note("", "", "deferred", "0")),
        ("[The tools of servers have changed since your list was made: 2 tools of mcp__a are gone.]",
         Note("", "", "servers", "2 tools of mcp__a are gone")),
        ("[The tools of servers are again as in your list.]", Note("", "", "servers")),
        ("[The permission mode is now `auto`: calls …]", Note("", "", "mode", "auto")),
        ("[The date is now 2026-01-02.]", Note("")),
    ],
)  # fmt: skip
def test_a_note_of_an_earlier_version_is_of_the_kind_that_its_words_say(text: str, note: Note) -> None:
    read = decode_part({"type": "note", "text": text})
    assert read == replace(note, text=text)
    assert decode_part(json.loads(json.dumps(encode_part(replace(note, text=text))))) == read
    assert decode_part({"type": "note", "text": text, "kind": "told"}) == Note(text)
