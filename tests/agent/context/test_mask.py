"""Outputs as one line each."""

from typing import Any

import pytest

from agent.context.mask import Numbered, as_shown, condensed, numbered_outputs
from agent.messages import Assistant, Conversation, OutputStatus, Text, ToolCall, ToolOutput, User


@pytest.mark.parametrize(
    ("name", "arguments", "text", "status", "line"),
    [
        ("read", {"path": "a.py"}, "1 x\n2 y\n", "done", "Viewed a.py – 2 lines"),
        ("read", {"path": "a.py"}, "`a.py` does not exist", "failed", "Viewed a.py – failed: `a.py` does not exist"),
        ("bash", {"command": "make  all"}, "built\nexit code 0", "done", "Ran: make all – exit 0"),
        (
            "bash",
            {"command": "make"},
            "cc a.c\na.c:3: error: no such field\nmore\nexit code 2",
            "failed",
            "Ran: make – exit 2 – a.c:3: error: no such field",
        ),
        ("bash", {"command": "false"}, "no output\nexit code 1", "failed", "Ran: false – exit 1 – no output"),
        ("bash", {"command": "x" * 99}, "exit code 0", "done", "Ran: " + "x" * 79 + "… – exit 0"),
        (
            "bash",
            {"command": "serve"},
            "job-1 is running; bash_output gives what it prints",
            "done",
            "Ran: serve – done: job-1 is running; bash_output gives what it prints",
        ),
        (
            "grep",
            {"pattern": "def", "path": "src"},
            "a.py:1: def\nb.py:2: def",
            "done",
            "Searched 'def' in src – 2 matches",
        ),
        ("grep", {"pattern": "zz"}, "no lines match", "done", "Searched 'zz' in . – 0 matches"),
        ("glob", {"pattern": "*.py"}, "a.py", "done", "Searched '*.py' in . – 1 matches"),
        ("edit", {"path": "a.py"}, "edited `a.py`, line 3", "done", "Edited a.py"),
        ("write", {"path": "a.py"}, "denied: rule", "denied", "Edited a.py – denied: denied: rule"),
        ("apply_patch", {"patch": "*** Update File: a\n*** Add File: b"}, "ok", "done", "Edited a, b"),
        ("web", {}, "a page\nwith lines", "done", "Called web – a page with lines"),
        ("web", {}, "timed out", "failed", "Called web – failed: timed out"),
        ("read", {"path": 7}, "", "done", "Viewed 7 – 0 lines"),
    ],
)
def test_an_output_becomes_one_line(
    name: str, arguments: dict[str, Any], text: str, status: OutputStatus, line: str
) -> None:
    found = Numbered(ToolCall("c", name, arguments), ToolOutput("c", text, status), 12)
    assert condensed(found) == f"{line} [recall:r12]"


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
    assert as_shown(conversation) == (
        conversation.messages[0],
        User((ToolOutput("a", "one"), ToolOutput("b", "Viewed y – 1 lines [recall:r42]"))),
        *conversation.messages[2:],
    )
