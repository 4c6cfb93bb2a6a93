"""Turns in which something was to be changed and nothing was: the model is asked for it."""

import pytest

from ebbtide.agent.integrations.small_models.unfinished_task import (
    MAX_QUOTED_CHARS,
    asks_for_change,
    find_calls_that_changed_files,
    unfinished_work_reminder,
)
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Message,
    Note,
    OutputStatus,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.tool_specs import UNKNOWN_TOOL_ERROR
from ebbtide.tools.command_runs.changed_files import PATTERN_NOT_FOUND
from ebbtide.tools.write import FINAL_NEWLINE_NOTE, UNCHANGED_NOTE


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("Fix the typo in a.md", True),
        ("app.py has a syntax error. Fix it.", True),
        ("average in avg.py crashes for an empty list. Make it return 0 then.", True),
        ("Can you rename f to g?", False),
        ("Could you please rename f to g?", True),
        ("In a.css make the text blue", False),
        ("In a.css, make the text blue", True),
        ("greet.sh should use NAME", True),
        ("How do I add a flag?", False),
        ("How many lines has a.txt?", False),
        ("Which file sets the port?", False),
        ("hello", False),
        ("", False),
    ],
)
def test_a_wish_begins_with_what_is_to_be_done(text: str, wish: bool) -> None:
    assert asks_for_change(text) is wish


def step(name: str, status: OutputStatus = "done", **arguments: object) -> tuple[Assistant, User]:
    call = ToolCall(f"{name}-{len(arguments)}", name, arguments)
    return Assistant((call,)), User((ToolOutput(call.id, "out", status),))


def said(text: str) -> Assistant:
    return Assistant((Text(text),))


FIX = User((Text("Fix a.py"), Note("`a.py` holds:\n\nx = 2\n", kind="file", name="a.py", heading=15)))
CODE = "So:\n```python\nx = 1\n```"
TASK = "`a.py` still contains:\nx = 2\n\nThis is to be done now: Fix a.py\n"
END = "Answer with the call alone, or say in one sentence why it cannot be done.]"
NOTHING, NOTHING_DONE = (
    f"[So far nothing was changed{shown}. {TASK}{END}" for shown in ("", ": the code that you show is not a call")
)


@pytest.mark.parametrize(
    ("turn", "reminder"),
    [
        ((said("It is fixed."),), NOTHING),
        ((said(CODE),), NOTHING_DONE),
        ((*step("bash", command="python3 a.py"), said("It works.")), NOTHING),
        ((*step("edit", "failed", path="a.py"), said("It is fixed.")), NOTHING),
        ((*step("edit", path="a.py"), said("It is fixed.")), None),
        ((*step("bash", command="sed -i s/a/b/ a.py"), said("It is fixed.")), None),
        ((*step("read", path="a.py"), Assistant((ToolCall("c", "read", {}),))), None),
    ],
)
def test_what_was_not_done_is_asked_for_with_what_it_is_about(turn: tuple[Message, ...], reminder: str | None) -> None:
    assert unfinished_work_reminder(Conversation((FIX, *turn))) == (reminder and User((Note(reminder, kind="undone"),)))


def test_a_file_written_as_it_was_is_no_change() -> None:
    def changed(wish: str, output: str) -> bool:
        call = Assistant((ToolCall("c", "write", {"path": "a.py", "content": "x = 2"}),))
        written = User((ToolOutput("c", output, "done"),))
        return any(find_calls_that_changed_files(Conversation((User((Text(wish),)), call, written, said("Done.")))))

    outputs = ("overwrote `a.py`: 1 line", f"overwrote `a.py`: 1 line{FINAL_NEWLINE_NOTE}", f"`a.py` {UNCHANGED_NOTE}")
    assert [changed("Fix a.py", output) for output in outputs] == [True, False, False]
    assert [changed("Add a newline at the end of a.py", output) for output in outputs] == [True, True, False]


@pytest.mark.parametrize(
    ("command", "is_change"),
    [("sed -i s/a/b/ a.py", False), ("sed -i s/a/b/ a.py && touch b", True), ("touch b", True)],
)
def test_a_command_that_found_nothing_to_change_is_no_change(command: str, is_change: bool) -> None:
    output = (
        f"no output\nexit code 0\nit changed nothing in `a.py`: {PATTERN_NOT_FOUND}"
        if "sed" in command
        else "no output"
    )
    call = Assistant((ToolCall("c", "bash", {"command": command}),))
    turn = (FIX, call, User((ToolOutput("c", output, "done"),)), said("It is fixed."))
    assert any(find_calls_that_changed_files(Conversation(turn))) is is_change


@pytest.mark.parametrize(
    ("name", "arguments", "leads"),
    [
        ("create_python_file", {"filename": "src/a.py", "code": "x"}, "src/a.py"),
        ("modify_file", {"path": "a.py", "changes": ["x"]}, "a.py"),
        ("modify_file", {"changes": "x"}, ""),
        ("delete_code", {"path": "a.py"}, ""),
        ("find_usages", {"path": "a.py"}, ""),
    ],
)
def test_who_wished_for_a_tool_that_writes_is_led_to_write(name: str, arguments: dict[str, object], leads: str) -> None:
    output = ToolOutput(
        "c", f"the call was not run: {UNKNOWN_TOOL_ERROR.format(name)}; the tools are read, write", "failed"
    )
    turn = (Assistant((ToolCall("c", name, arguments),)), User((output,)), said("I made it."))
    call = (
        f"Call `write` with the path `{leads}` and the complete content of the file"
        if leads
        else "Answer with the call alone"
    )
    reminder = NOTHING.replace("Answer with the call alone", call)
    assert unfinished_work_reminder(Conversation((FIX, *turn))) == User((Note(reminder, kind="undone"),))


def test_long_files_are_not_said_once_more() -> None:
    message = User((Text("Fix a.py"), Note("x" * (MAX_QUOTED_CHARS + 1), kind="file", name="a.py")))
    asked = unfinished_work_reminder(Conversation((message, said("It is fixed."))))
    assert asked == User(
        (Note(f"[So far nothing was changed. This is to be done now: Fix a.py\n{END}", kind="undone"),)
    )


def test_it_is_asked_for_twice_in_a_turn() -> None:
    messages: tuple[Message, ...] = (FIX, said("It is fixed."))
    for _ in range(2):
        asked = unfinished_work_reminder(Conversation(messages))
        assert asked is not None
        messages = (*messages, asked, said("It is fixed."))
    assert unfinished_work_reminder(Conversation(messages)) is None
    assert unfinished_work_reminder(Conversation((*messages, FIX, said("It is fixed.")))) is not None


def test_work_of_an_earlier_turn_is_none_of_this_one() -> None:
    conversation = Conversation((FIX, *step("edit", path="a.py"), said("Done."), FIX, said("Done.")))
    assert list(find_calls_that_changed_files(conversation)) == []
    assert unfinished_work_reminder(Conversation(())) is None
    assert unfinished_work_reminder(Conversation((said("Hello."),))) is None
