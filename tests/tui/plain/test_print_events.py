import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.events.permissions import CallDenied, CallEdited, PermissionAsked
from ebbtide.agent.events.session import (
    Event,
    JobEnded,
    Noticed,
    RetryScheduled,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from ebbtide.tools.process.state import ProgramState
from ebbtide.tui.plain.print_events import MAX_PENDING_CHARS, PrintState, event_lines
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.plain_lines import plain_lines


def printed(*events: Event, is_full: bool = False) -> list[str]:
    before, lines = PrintState(), list[str]()
    for event in events:
        before, more = event_lines(before, event, is_full=is_full)
        lines += more
    return lines


def test_what_a_command_of_the_user_printed_is_printed() -> None:
    assert printed(
        ToolStarted("by-user-1", "bash", {"command": "ls"}),
        ToolFinished(
            "by-user-1", "bash", "done", "a.py\n\tb\x1b[2J.py\nexit code 0", program=ProgramState("exit code 0", 0)
        ),
    ) == ["a.py", "    b␛[2J.py", "exit code 0", "Tool bash  ls: done, 2 lines."]


def test_a_call_that_the_user_changed_is_named_as_it_ran() -> None:
    assert printed(
        ToolStarted("1", "bash", {"command": "rm a.py"}),
        CallEdited("1", "bash", {"command": "ls a.py"}),
        ToolFinished("1", "bash", "done", "a.py"),
    ) == ["Tool bash  ls a.py: done, edited by you, 1 line."]


def read(id: str, path: str) -> tuple[Event, Event]:
    return ToolStarted(id, "read", {"path": path}), ToolFinished(id, "read", "done", "x = 1\n")


def test_reads_in_a_row_are_one_line_before_whatever_comes_next() -> None:
    asked = PermissionAsked("q", "3", "bash", {"command": "ls"}, "")
    assert printed(*read("1", "a.py"), StepStarted(2), *read("2", "b.py")) == []
    assert printed(*read("1", "a.py"), StepStarted(2), *read("2", "b.py"), TextDelta("So.\n")) == [
        "Read 2 files: a.py, b.py.", "So.",
    ]  # fmt: skip
    assert printed(*read("1", "a.py"), *read("2", "b.py"), asked) == ["Read 2 files: a.py, b.py."]
    assert printed(*read("1", "a.py"), TurnFinished("answered", "")) == ["Tool read  a.py: done, 1 line."]
    assert printed(*read("1", "a.py"), *read("2", "b.py"), is_full=True) == [
        "Tool read  a.py: done, 1 line.",
        "Tool read  b.py: done, 1 line.",
    ]


def said(text: str, size: int) -> list[Event]:
    return [TextDelta(text[at : at + size]) for at in range(0, len(text), size)]


ANSWER = """# What is wrong

It fails here. The parser reads one token too far, so that the last one is lost. Short one.

```python
x = 1.  # a sentence. And another one that would be long enough.
```
1. first
2. second
The end"""

LINES = [
    "# What is wrong",
    "",
    "It fails here. The parser reads one token too far, so that the last one is lost.",
    "Short one.",
    "",
    "```python",
    "x = 1.  # a sentence. And another one that would be long enough.",
    "```",
    "1. first",
    "2. second",
    "The end",
]


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
def test_an_answer_is_printed_in_whole_sentences_however_it_streams(size: int) -> None:
    assert printed(*said(ANSWER, size), TurnFinished("answered", ANSWER)) == LINES


def test_a_sentence_is_printed_as_soon_as_it_is_complete() -> None:
    first = "The parser reads one token too far, so that the last one is lost. "
    assert printed(TextDelta(first), TextDelta("And then")) == [first.strip()]


@given(st.lists(st.text(st.characters(exclude_characters="\r"), max_size=60), max_size=20))
def test_no_word_of_an_answer_is_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    lines = printed(*map(TextDelta, pieces), TurnFinished("answered", text))
    assert "".join("".join(lines).split()) == "".join(sanitise(text).split())


def test_what_never_ends_is_printed_all_the_same() -> None:
    lines = printed(TextDelta("x" * (3 * MAX_PENDING_CHARS)), TextDelta("y " * MAX_PENDING_CHARS))
    assert max(map(len, lines)) <= MAX_PENDING_CHARS
    assert len(lines) >= 4


def test_a_call_is_one_line_with_its_outcome() -> None:
    calls = (
        ToolStarted("1", "bash", {"command": "pytest -q"}),
        ToolProgress("1", "...."),
        ToolFinished("1", "bash", "done", "one\ntwo\n"),
        ToolStarted("2", "edit", {"path": "a.py"}),
        ToolFinished("2", "edit", "done", "edited", changed=("a.py",)),
        ToolStarted("3", "read", {"path": "\x1b[2J"}),
        ToolFinished("3", "read", "failed", "there is no such file.\nmore"),
        CallDenied("4", "write", {"path": "b.py"}, "rule"),
        ToolFinished("4", "write", "denied", "denied"),
        ToolStarted("5", "bash", {"command": "seq 9000"}),
        ToolFinished("5", "bash", "interrupted", ""),
    )
    assert printed(TextDelta("I look"), *calls) == [
        "I look",
        "Tool bash  pytest -q: done, 2 lines.",
        "Tool edit  a.py: done, 1 line, changed a.py.",
        "Tool read  ␛[2J: failed: there is no such file.",
        "Tool write  b.py: denied.",
        "Tool bash  seq 9000: interrupted.",
    ]


def test_what_a_failed_request_had_said_is_called_void() -> None:
    retry = RetryScheduled(2, 5, 3.0, "overloaded")
    start = (TurnStarted("s", "m", "hi"), StepStarted(1))
    again = "overloaded. Retrying in 3s, attempt 2 of 5."
    void = "The model's text since your message or the last tool call is discarded."
    assert printed(*start, retry) == [again]
    assert printed(*start, TextDelta("Half a sen"), retry, TextDelta("Whole."), TurnFinished("answered", "Whole.")) == [
        again,
        void,
        "Whole.",
    ]


def test_notes_and_errors_say_what_they_are() -> None:
    assert printed(TextDelta("so"), Noticed("two\nlines")) == ["so", "Note: two", "lines"]
    ended = JobEnded("job-1", "make", "exit code 2", ("one", "two", "three", "four"))
    assert printed(ended) == ["Note: job-1 ended, exit code 2: make", "  two", "  three", "  four"]
    assert printed(TurnFailed("auth", "no key; set one", 4)) == ["Error: no key; set one"]
    assert printed(TurnStarted("s", "m", "hi"), TurnFinished("answered", "not streamed")) == ["not streamed"]
    assert printed(TextDelta("So"), TurnFinished("interrupted", "So")) == ["So"]


def test_what_steers_a_terminal_is_shown() -> None:
    hostile = "\x1b]0;owned\x07 \x9b31m \u202eabc"
    events = (
        TextDelta(hostile),
        Noticed(hostile),
        TurnFailed("x", hostile, 1),
        ToolFinished("1", hostile, "failed", hostile),
    )
    for line in printed(*events):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(line)


def test_what_is_only_drawn_is_left_out() -> None:
    lines: list[Line] = [(("  system ", "text"), ("██▌", "accent")), (("──", "dim"),)]
    assert plain_lines(lines) == ("  system", "")
