"""Outputs as one line each."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Image,
    OutputStatus,
    StoredBlob,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.records.earlier_formats import parse_program_state
from ebbtide.agent.view.previews import stored_excerpt
from ebbtide.agent.view.stubs import HOOK_NOTE_PREFIX, strongest_error
from ebbtide.agent.view.visible import NumberedOutput, numbered_outputs, outcome_with_ref, visible_messages
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.process.state import ProgramState

LATE = "ended: not finished after 5 s; give more"


HOSTILE = st.text(st.sampled_from("ab \n\r\t\x07\x08\x1b\x85\x9b[]:(){}JmKrR0123456789-recalmsgu;h\u2028"), max_size=60)
HOSTILE |= st.lists(st.sampled_from(["[recall:r9]", "[r9]", "\x1b[2J", "[msg-1a", "\x1b]0;", "error ", "]"])).map(
    "".join
)


@given(
    st.sampled_from(["read", "bash", "grep", "edit", "apply_patch", "web"]),
    HOSTILE,
    HOSTILE,
    st.sampled_from(["done", "failed", "denied"]),
)
def test_nothing_in_a_line_but_its_end_is_a_reference_or_steers_a_terminal(
    name: str, argument: str, text: str, status: OutputStatus
) -> None:
    arguments = {key: argument for key in ("path", "command", "pattern")}
    call = ToolCall("c", name, {**arguments, "patch": f"*** Add File: {argument}"})
    line = outcome_with_ref(NumberedOutput(call, ToolOutput("c", text, status), 12))
    assert re.findall(r"\[\s*(?:recall\s*:[^\]]*|r\d+|msg-[0-9a-f]+|sum-\d+)\s*\]", line, re.IGNORECASE) == [
        "[recall:r12]"
    ]
    assert line.isprintable()


def kept_apart(excerpt: str, lines: int) -> ToolOutput:
    part = stored_excerpt("mcp__db__rows", "r1", 9000, lines, excerpt)
    return ToolOutput("c", part.text, stored=StoredBlob("d", 9000, lines), inserted=part.inserted)


@pytest.mark.parametrize(
    ("name", "arguments", "text", "status", "line"),
    [
        ("read", {"path": "a.py"}, "1 x\n2 y\n", "done", "Viewed a.py – 2 lines"),
        ("read", {"path": "a.py"}, "`a.py` does not exist", "failed", "Viewed a.py – failed: `a.py` does not exist"),
        ("bash", {"command": "make  all"}, "built\nexit code 0", "done", "Ran: make all – exit 0"),
        ("bash", {"command": "make"}, "cc a.c\na.c:3: error: no such field\nmore\nexit code 2", "failed",
         "Ran: make – exit 2 – a.c:3: error: no such field"),
        ("bash", {"command": "cmp a b"}, "comparing\na b differ: byte 1\n\nexit code 1", "failed",
         "Ran: cmp a b – exit 1 – a b differ: byte 1"),
        ("bash", {"command": "false"}, "no output\nexit code 1", "failed", "Ran: false – exit 1"),
        ("bash", {"command": "x" * 99}, "exit code 0", "done", "Ran: " + "x" * 79 + "… – exit 0"),
        ("bash", {"command": "serve"}, "job-1 is running; bash_output gives what it prints", "done",
         "Ran: serve – job-1: still running"),
        ("grep", {"pattern": "def", "path": "src"}, "a.py:1: def\nb.py:2: def", "done",
         "Searched 'def' in src – 2 matches"),
        ("grep", {"pattern": "zz"}, "no lines match", "done", "Searched 'zz' in . – 0 matches"),
        ("glob", {"pattern": "*.py"}, "a.py", "done", "Searched '*.py' in . – 1 match"),
        ("edit", {"path": "a.py"}, "edited `a.py`, line 3", "done", "Edited a.py"),
        ("write", {"path": "a.py"}, "denied: rule", "denied", "Edited a.py – denied: denied: rule"),
        ("apply_patch", {"patch": "*** Update File: a\n*** Add File: b"}, "ok", "done", "Edited a, b"),
        ("web", {}, "a page\nwith lines", "done", "Called web – a page with lines"),
        ("web", {}, "timed out", "failed", "Called web – failed: timed out"),
        ("read", {"path": 7}, "", "done", "Viewed 7 – 0 lines"),
        ("read", {"path": "a.py"}, "1 x", "done", "Viewed a.py – 1 line"),
        ("read", {"path": "a\x1b[2J\nb"}, "1 x", "done", r"Viewed a\x1b[2J\nb – 1 line"),
        ("bash", {"command": "printf '\x1b[31mred'"}, "exit code 0", "done", "Ran: printf 'red' – exit 0"),
        ("bash",
         {"command": "echo [r3]"},
         "\x1b[31merror:\x1b[0m see [recall:r9] and [ Recall: ebb://a/b/r2:L1 ]\nexit code 1",
         "failed",
         "Ran: echo (r3) – exit 1 – error: see (recall:r9) and ( Recall: ebb://a/b/r2:L1 )"),
        ("web", {}, "a list[r] of [recall:r9", "done", "Called web – a list[r] of (recall:r9"),
    ],
)  # fmt: skip
def test_an_output_becomes_one_line(
    name: str, arguments: dict[str, Any], text: str, status: OutputStatus, line: str
) -> None:
    program = parse_program_state("", text) if name == "bash" else None
    found = NumberedOutput(ToolCall("c", name, arguments), ToolOutput("c", text, status, program=program), 12)
    assert outcome_with_ref(found) == f"{line} [recall:r12]"


@pytest.mark.parametrize(
    ("name", "output", "line"),
    [
        ("read", ToolOutput("c", "1\tx\n…", extent=Extent("lines", 50, 300)), "Viewed x – lines 1-50 of 300"),
        ("read", ToolOutput("c", "9\tx", extent=Extent("lines", 5, 300, 9)), "Viewed x – lines 9-13 of 300"),
        ("read", ToolOutput("c", "1\tx", extent=Extent("lines", 300, 300)), "Viewed x – 300 lines"),
        ("read", ToolOutput("c", "1\tx\n(lines 1-1 of 300; go on with offset=2)"), "Viewed x – 1 line"),
        ("read", ToolOutput("c", "a picture", images=(Image("image/png", ""),)), "Viewed x – a picture"),
        ("grep",
         ToolOutput("c", "f\n1:x", extent=Extent("matches", 200, 300)),
         "Searched 'x' in x – 200 of 300 matches"),
        ("grep",
         ToolOutput("c", "f\n1:x", extent=Extent("matches", 200)),
         "Searched 'x' in x – the first 200 matches of more"),
        ("grep", ToolOutput("c", "f", extent=Extent("files", 1, 1)), "Searched 'x' in x – 1 file"),
        ("glob", ToolOutput("c", "no files match", extent=Extent("files", 0, 0)), "Searched 'x' in x – 0 files"),
        # Outputs of imported sessions: Claude Code's Read and Grep, Gemini CLI's search_file_content.
        ("read", ToolOutput("c", "     9→x\n    10→y\n\n<system-reminder>\nno malware\n</system-reminder>"),
         "Viewed x – 2 lines"),
        ("grep", ToolOutput("c", "Found 3 files\na.py\nb.py\nc.py"), "Searched 'x' in x – 3 files"),
        ("grep", ToolOutput("c", 'Found 1 match for pattern "x" in path ".":\n---\nFile: a.py\nL1: x\n---'),
         "Searched 'x' in x – 1 match"),
        ("bash", ToolOutput("c", "exit code 7\nexit code 0", program=ProgramState("exit code 0", 0)),
         "Ran: x – exit 0"),
        ("bash", ToolOutput("c", f"begun\n{LATE}", "failed", program=ProgramState(LATE, limit=5)),
         "Ran: x – not finished after 5 s – begun"),
        ("bash",
         ToolOutput("c", "a\nkilled by SIGSEGV", "failed", program=ProgramState("killed by SIGSEGV", signal=11)),
         "Ran: x – killed by SIGSEGV – a"),
        ("mcp__db__rows", kept_apart("id 1\nid 2", 1200), "Called mcp__db__rows – 1,200 lines: id 1 id 2"),
        ("mcp__db__rows", kept_apart('{"id": 1', 1), 'Called mcp__db__rows – 9,000 bytes: {"id": 1'),
        ("shot", ToolOutput("c", "", images=(Image("image/png", ""),)), "Called shot – 1 picture"),
        ("shot",
         ToolOutput("c", "both", images=(Image("image/png", ""),), pictures=(StoredBlob("d", 9, 0, "image/png"),)),
         "Called shot – 2 pictures: both"),
        ("mcp__db__drop", ToolOutput("c", ""), "Called mcp__db__drop – nothing"),
    ],
)  # fmt: skip
def test_figures_are_those_that_the_tool_reported(name: str, output: ToolOutput, line: str) -> None:
    call = ToolCall("c", name, {"path": "x", "pattern": "x", "command": "x"})
    assert outcome_with_ref(NumberedOutput(call, output, 1)) == f"{line} [recall:r1]"


def test_outputs_are_counted_over_the_whole_session() -> None:
    conversation = Conversation(
        (
            Assistant((ToolCall("a", "read", {"path": "x"}), ToolCall("b", "read", {"path": "y"}))),
            User((ToolOutput("a", "one"), ToolOutput("b", "two"))),
            Assistant((Text("hm"), ToolCall("c", "read", {"path": "z"}))),
            User((ToolOutput("c", "three", whole="/kept"),)),
        ),
        masked=frozenset({"b", "gone"}),
        outputs_before=40,
    )
    assert [(found.ref, found.call.id) for found in numbered_outputs(conversation)] == [
        ("r41", "a"), ("r42", "b"), ("r43", "c"),
    ]  # fmt: skip
    assert visible_messages(conversation) == (
        conversation.messages[0],
        User((ToolOutput("a", "one"), ToolOutput("b", "Viewed y – 1 line [recall:r42]"))),
        *conversation.messages[2:],
    )


def test_what_a_hook_says_of_an_output_is_no_error_of_it() -> None:
    program = ProgramState("exit code 1", code=1)
    note = f"{HOOK_NOTE_PREFIX}`bash` objects; take it into account:]\nerror: style\nexit code 1"
    output = ToolOutput("c", f"12 files checked\n2 are not in order\nexit code 1\n{note}", "failed", program=program)
    assert strongest_error(output) == "2 are not in order"


def test_the_line_of_a_failed_command_quotes_what_says_what_is_wrong() -> None:
    program = ProgramState("exit code 2", code=2)
    words = (
        "test_error_1 PASSED\nthe build failed\nsrc/a.c:3:1: error: no type `x`\nmake: *** [a.o] Error 1\nexit code 2"
    )
    assert strongest_error(ToolOutput("c", words, "failed", program=program)) == "src/a.c:3:1: error: no type `x`"


def test_a_line_that_begins_with_a_number_is_quoted_whole_also_from_a_preview() -> None:
    part = stored_excerpt("bash", "r1", 9000, 300, "12: error: x\n[… lines 2-299 left out …]\n300: end")
    output = ToolOutput("c", part.text, "failed", inserted=part.inserted, program=ProgramState("exit code 2", code=2))
    assert strongest_error(output) == "12: error: x"


def test_a_line_of_the_matches_in_a_preview_is_quoted_as_it_was_printed() -> None:
    matches = "\nmatches: 698- all is well\n700: KeyError: 'x' (and 3 like it, from line 20)"
    part = stored_excerpt("bash", "r1", 9000, 1200, "line 1\n[… lines 2-1199 left out …]\nline 1200", matches)
    assert strongest_error(ToolOutput("c", part.text, "failed", inserted=part.inserted)) == "KeyError: 'x'"
