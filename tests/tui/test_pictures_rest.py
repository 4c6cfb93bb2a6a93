"""Pictures of what no other file has: beginnings, questions of servers, what is opened, errors, wide and foreign text.
Look at every one that changes."""

from pathlib import Path

import pytest

from ebbtide.agent.config.options import ThemeName
from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.agent.events.session import (
    Event,
    JobEnded,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFailed,
    TurnFinished,
)
from ebbtide.agent.integrations.mcp.elicitation import parse_fields
from ebbtide.agent.messages import Conversation, Summary
from ebbtide.tools.process.state import ProgramState
from ebbtide.tui.app import EbbApp
from ebbtide.tui.slash_commands import Invocation, command_by_name
from tests.kit.app_pilot import list_on
from tests.kit.fake_sessions import FakeFiles, FakeSession, FakeSessions, conversation, measured, session_info
from tests.kit.pictures import SIZES, Picture, asks
from tests.tui.screens.test_hooks import PlayedHooks
from tests.tui.test_pictures_diffs import CHANGED

DONE = TurnFinished("answered", "x")


def app_with(*turn: Event) -> EbbApp:
    return EbbApp(FakeSessions([FakeSession([[measured(), *turn]])]), first_message="how does it look?", guard_s=0.0)


@SIZES
def test_a_session_that_begins(picture: Picture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.tui.session.greeter.time", lambda: 1_000_000.0)
    infos = (
        session_info("s1", "the last token of a line gets lost", updated_at=995_000.0),
        session_info("s2", "make the parser accept trailing commas, and say so in the changelog", updated_at=640_000.0),
    )
    monkeypatch.setattr(
        "ebbtide.tui.session.greeter._read_branch_and_file_sizes", lambda *_: ("main", (("AGENT.md", 4_200),))
    )
    sessions = FakeSessions([FakeSession(working_folder=Path("/home/me/project"))], infos)
    assert picture(EbbApp(sessions, guard_s=0.0))


FORM = {
    "properties": {
        "severity": {
            "title": "Severity",
            "description": "How bad it is, for those who have to wait for it",
            "type": "string",
            "enum": ["blocks everybody", "blocks some", "can wait"],
        }
    }
}


@SIZES
def test_a_question_of_a_server(picture: Picture) -> None:
    field = parse_fields(FORM)[0]
    app = app_with(QuestionAsked("q", f"`forge` asks for {field.build_question()}", field.options))
    assert picture(app, asks(app, QuestionAsked), "down")


@SIZES
def test_what_the_last_turn_changed(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession(file_history=FakeFiles(CHANGED[:2]))]), guard_s=0.0)
    assert picture(app, "f4", lambda: list_on(app, "diff"), "down")


@SIZES
def test_an_error_with_what_to_do(picture: Picture) -> None:
    message = "anthropic answers HTTP 429: the limit of 40,000 input tokens a minute is reached for this organisation"
    app = app_with(TextDelta("I read the parser first."), TurnFailed("rate_limit", message, 1))
    assert picture(app)


THOUGHT = (
    "The lexer drops the last token when a line ends in a comment. The parser waits for a bracket that it never "
    "sees.\n\nTwo ways: keep the token, or let the parser take the end of a file for a bracket. The first is right."
)


@SIZES
def test_a_thought_and_a_call_that_are_open(picture: Picture) -> None:
    output = "\n".join([*(f"tests/test_lexer.py::test_{n} PASSED" for n in range(4)), "4 passed in 0.31s"])
    app = app_with(
        ReasoningDelta(THOUGHT),
        ToolStarted("1", "bash", {"command": "pytest -v tests/test_lexer.py", "timeout": 60}),
        ToolFinished("1", "bash", "done", output),
        TextDelta("It holds."),
        DONE,
    )

    def both_open() -> bool:
        return len(app.main_screen.transcript.expanded_blocks) == 2

    assert picture(app, "enter", "up", "enter", both_open, start=lambda: app.main_screen.transcript.focus())


FOREIGN = """\
| module | what it does | where it is used | who looks after it | since |
|:--|:--|:--|:--|--:|
| `lexer` | cuts the source into tokens, comments and blank lines among them | parser, formatter | Noa | 2019 |
| `parser` | builds the tree that all others walk | formatter, checker, language server | 王小明 | 2019 |
| `checker` | finds what cannot be meant | command line | דנה לוי | 2024 |

The comment says `# שלום עולם` and the string is `"مرحبا بالعالم"`, which editors draw from right to left.

- 日本語の行は二倍の幅を取ります。 Each of these takes two cells.
- e\u0301 is one letter of two characters, and 👩‍👩‍👧 is one picture of five.
"""


@SIZES
def test_a_wide_table_and_foreign_words(picture: Picture) -> None:
    app = app_with(TextDelta(FOREIGN), DONE)
    assert picture(app)


MESSAGES = conversation(120).messages
SUMMARY = Summary(summary="The parser fails at the end of a file.")


@SIZES
def test_a_session_that_was_compacted_goes_on(picture: Picture) -> None:
    history = Conversation(MESSAGES[-2:], SUMMARY, messages_before=238)
    app = EbbApp(FakeSessions([FakeSession(history=history)]), guard_s=0.0)
    assert picture(app, "up", "up", start=lambda: app.main_screen.transcript.focus())


def test_what_was_said_before_is_read(picture: Picture) -> None:
    session = FakeSession(id="s1", history=Conversation(MESSAGES[-2:], SUMMARY, messages_before=238))
    app = EbbApp(FakeSessions([session], said_before={"s1": MESSAGES}), guard_s=0.0)

    async def above() -> None:
        await app.controller.load_older_messages()
        app.main_screen.transcript.go_to_end()
        app.main_screen.transcript.scroll_page(-1)

    assert picture(app, start=above)


def looked_at(name: str, id: str, **arguments: str) -> tuple[Event, Event]:
    return ToolStarted(id, name, arguments), ToolFinished(id, name, "done", "1  import decimal\n2  import enum")


STEPS = ("read the lexer", "done"), ("let it keep the last token", "doing"), ("run the tests", "pending")
LISTED = {"items": [{"text": text, "status": status} for text, status in STEPS]}
OLD = "def tokens(line):\n    found = scan(line)\n    return found[:-1]"
EDIT = {"path": "src/lexer.py", "old": OLD, "new": OLD.replace("[:-1]", "")}
PRINTED = "\n".join([*(f"tests/test_lexer.py::test_{n} PASSED" for n in range(9)), "9 passed in 0.31s"])
WORK: list[Event] = [
    measured(),
    *looked_at("read", "1", path="src/lexer.py"),
    *looked_at("read", "2", path="src/parser.py"),
    *looked_at("grep", "3", pattern="def tokens"),
    ToolStarted("4", "todo", LISTED),
    ToolFinished("4", "todo", "done", "kept"),
    ToolStarted("5", "edit", EDIT),
    ToolFinished("5", "edit", "done", "edited", ("src/lexer.py",)),
    ToolStarted("6", "bash", {"command": "pytest -v tests/test_lexer.py"}),
    ToolFinished("6", "bash", "done", PRINTED),
    TextDelta("The last token is kept now."),
    DONE,
]


@SIZES
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_work_in_view(picture: Picture, theme: ThemeName) -> None:
    text = "the last token of a line gets lost"
    app = EbbApp(FakeSessions([FakeSession([WORK])]), first_message=text, guard_s=0.0, theme=theme)
    assert picture(app)


@SIZES
def test_the_hooks_of_a_session(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession(hooks=PlayedHooks())]), guard_s=0.0)
    asked = Invocation(command_by_name("hooks"), "")
    assert picture(app, lambda: list_on(app, "hooks"), "down", "down", start=lambda: app.jobs.invoke(asked))


@SIZES
def test_a_background_job_that_ends_while_nothing_runs(picture: Picture) -> None:
    app = app_with(
        ToolStarted("c1", "bash", {"command": "npm run build", "background": True}),
        ToolFinished("c1", "bash", "done", "job-1 is running", program=ProgramState("job-1 is running", job="job-1")),
        TextDelta("The build runs in the background."),
        DONE,
    )
    last = ("src/a.ts(3,12): error TS2322: Type 'string' is not assignable to type 'number'.", "1 error", "\x1b[31mred")
    ended = JobEnded("job-1", "npm run build", "exit code 2", last)
    assert picture(app, start=lambda: app.controller.show_event(ended))


@SIZES
def test_jobs_and_the_ports_that_they_listen_on(picture: Picture) -> None:
    served = "job-1: npm run dev (port 5173 at 127.0.0.1:5173, port 24678 in the sandbox)"
    session = FakeSession(
        [[measured(), TextDelta("The server runs."), DONE]], running_jobs=(served, "job-2: make watch")
    )
    app = EbbApp(FakeSessions([session]), first_message="start it", guard_s=0.0)

    def look() -> None:
        app.controller.show_notice("job-1 listens on port 5173: you reach it at http://127.0.0.1:5173")
        app.jobs.invoke(Invocation(command_by_name("tasks"), ""))

    assert picture(app, lambda: list_on(app, "tasks"), start=look)
