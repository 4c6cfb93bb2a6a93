"""How calls ended, from what real tools give back."""

from pathlib import Path

import pytest

from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.process.state import ProgramState
from ebbtide.tui.render.blocks import render_block
from ebbtide.tui.view.blocks import Call, SessionView
from ebbtide.tui.view.outcomes import MAX_FAILURE_LINES, call_diff, call_outcome, collapsed_lines
from ebbtide.tui.view.reduce import apply_event
from tests.kit.project import Project
from tests.kit.session import call, events_of
from tests.tui.render.test_blocks import INKS

TRACE = "echo started; echo; echo 'Traceback (most recent call last):'; echo '  in f'; echo 'ValueError: no' >&2"


async def ended(tmp_path: Path, name: str, **arguments: object) -> Call:
    """The block of a real call that is over."""
    replies = {"calls": [call(name, **arguments)]}, {"text": "ok"}
    view = SessionView()
    async with Project(tmp_path) as project:
        for event in await events_of(await project.session(*replies, mode="auto")):
            view = apply_event(view, event)
    (found,) = (block for block in view.blocks if isinstance(block, Call))
    return found


@pytest.mark.parametrize(
    ("command", "outcome", "lines"),
    [
        (
            f"{TRACE}; exit 1",
            "exit code 1",
            ("started", "Traceback (most recent call last):", "  in f", "ValueError: no"),
        ),
        ("false", "exit code 1", ()),
        ("kill -9 $$", "killed by SIGKILL", ()),
        (
            "printf '%s\\n' F ==== 'a != b' ---- 'Ran 3 tests' FAILED; exit 1",
            "exit code 1",
            ("F", "a != b", "Ran 3 tests", "FAILED"),
        ),
        (
            f"seq 9; {TRACE}; seq 9; exit 1",
            "exit code 1",
            ("Traceback (most recent call last):", "  in f", "ValueError: no", "…", "7", "8", "9"),
        ),
        ("seq 9000; echo; echo the last; exit 3", "exit code 3", ("8997", "8998", "8999", "9000", "the last")),
        (
            "for n in `seq 2000`; do echo an error; done; exit 4",
            "exit code 4",
            ("an error", "[… 155 more like these …]", *("an error",) * 3),
        ),
        ("sleep 9 & echo left; exit 5", "exit code 5", ("left",)),
        ("echo hi", "1 line", ()),
        ("true", "", ()),
        ("seq 9000", "9,000 lines", ()),
    ],
)
async def test_a_command_shows_how_it_ended_and_why(
    tmp_path: Path, command: str, outcome: str, lines: tuple[str, ...]
) -> None:
    found = await ended(tmp_path, "bash", command=command)
    assert (call_outcome(found, ""), collapsed_lines(found)[0]) == (outcome, lines)


async def test_a_command_that_takes_too_long_says_so(tmp_path: Path) -> None:
    found = await ended(tmp_path, "bash", command="echo begun; sleep 60", timeout=1)
    assert (found.status, call_outcome(found, "")) == ("done", "still running as job-1")
    later = await ended(tmp_path, "bash", command="sleep 60", background=True)
    assert (later.status, call_outcome(later, "")) == ("done", "")


async def test_of_what_a_tool_says_the_beginning_is_shown(tmp_path: Path) -> None:
    found = await ended(tmp_path, "read", path="gone.py")
    assert call_outcome(found, "") == ""
    assert collapsed_lines(found) == (tuple(found.text.split("\n"))[:3], False)


def test_what_a_program_prints_is_not_taken_for_how_it_ended() -> None:
    printed = Call(
        "1",
        "bash",
        {},
        "failed",
        text="exit code 7\nmake: no rule\nexit code 2\nfrom a hook",
        program=ProgramState("exit code 2", 2),
    )
    assert call_outcome(printed, "") == "exit code 2"
    assert collapsed_lines(printed) == (("exit code 7", "make: no rule"), True)


def test_a_sentence_of_a_tool_is_read_to_its_end() -> None:
    sentence = "the arguments are invalid, so it was not run: `items.2.status` is not one of todo, doing, done"
    long = Call("1", "todo", {}, "failed", text=" ".join([sentence] * 9))
    drawn = ["".join(segment.text for segment in line) for line in render_block(long, "normal", 60, INKS)]
    assert len(drawn) == 1 + MAX_FAILURE_LINES
    short = [line.partition("│ ")[2] for line in drawn_of(Call("1", "todo", {}, "failed", text=sentence))]
    assert " ".join(" ".join(short).split()) == sentence


def drawn_of(call: Call) -> list[str]:
    return ["".join(segment.text for segment in line) for line in render_block(call, "normal", 60, INKS)][1:]


def test_a_change_says_how_many_problems_it_brought() -> None:
    arguments, lines = {"path": "a.py", "old": "a", "new": "b"}, ("a.py:1:1 error: and one more [words]",)
    calls = [
        Call("1", "edit", arguments, "done", problems=problems)
        for problems in (None, NewProblems(1, lines), NewProblems(1_212, lines))
    ]
    outcomes = [call_outcome(call, call_diff(call)) for call in calls]
    assert outcomes == ["+1 −1", "+1 −1, 1 new problem", "+1 −1, 1,212 new problems"]
