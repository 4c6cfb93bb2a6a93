"""The session in lines, with sessions that say what they are told to and a reader that types what it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import pytest

from ebbtide.agent.archive.tree import Branch, MessagePreview, SessionTree
from ebbtide.agent.errors import AgentError, StoreFailed, UsageError
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import TextDelta, ToolFinished, ToolStarted, TurnFailed, TurnFinished
from ebbtide.agent.messages import Note
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.plain.app import LineModeApp
from ebbtide.tui.plain.command_context import COMMAND_PROMPT
from ebbtide.tui.plain.reader import PROMPT, is_continued, join_continued_lines
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.key_arrivals import ANSWER_GUARD_S, KeyArrival
from ebbtide.tui.slash_commands import COMMANDS
from ebbtide.tui.view.blocks import Notice
from ebbtide.version import VERSION
from tests.kit.fake_sessions import FakeLibrary, FakeSession, FakeSessions, Hold, conversation, session_info
from tests.kit.polling import until

ASKED = PermissionAsked("q1", "1", "bash", {"command": "ls"}, "ask mode", offers=("bash(ls)",))


@dataclass
class Typist:
    """A reader whose lines a test types."""

    shown: list[str] = field(default_factory=list)
    prompt: str = ""
    prompts: list[str] = field(default_factory=list)
    lines: "asyncio.Queue[str | None]" = field(default_factory=asyncio.Queue)
    has_line_editing: bool = False
    given: list[str] = field(default_factory=list)
    begun: list[tuple[str, str]] = field(default_factory=list)
    arrival: KeyArrival = field(default_factory=lambda: KeyArrival(0.0))

    async def read(self) -> str:
        line = await self.lines.get()
        if line is None:
            raise EOFError
        return line

    def print_lines(self, lines: Sequence[str]) -> None:
        self.shown += lines

    async def wait_until_printed(self) -> None:
        """All is shown at once."""

    def set_prompt(self, prompt: str) -> None:
        self.prompt = prompt

    def prefill(self, text: str, prompt: str = PROMPT) -> bool:
        if prompt != PROMPT:
            self.begun.append((prompt, text))
            return self.has_line_editing
        self.given.append(text)
        return False

    async def run_with_terminal(self, work: Callable[[], str]) -> str:
        return await asyncio.to_thread(work)

    @property
    def draft(self) -> str:
        return ""

    def close(self) -> None:
        self.lines.put_nowait(None)


@dataclass
class Talking:
    front: LineModeApp
    typist: Typist
    sessions: FakeSessions
    running: "asyncio.Task[str | None]"

    def type(self, line: str) -> None:
        self.typist.lines.put_nowait(line)

    async def says(self, line: str, shows: str = "", asks: str = "") -> None:
        """Types a line, and waits for what is named, or else until all that was typed is done."""
        self.type(line)
        await (self.shows(shows) if shows else self.asks(asks) if asks else self.rests())

    async def shows(self, words: str) -> None:
        await until(lambda: any(words in line for line in self.typist.shown))

    async def asks(self, prompt: str) -> None:
        await until(lambda: self.typist.prompt == prompt)

    async def rests(self) -> None:
        """Waits until all that was typed is done."""
        await until(lambda: self.typist.lines.empty())
        await self.asks(PROMPT)


@asynccontextmanager
async def talking(
    *sessions: FakeSession | AgentError,
    infos: Sequence[SessionInfo] = (),
    first: str | None = None,
    **options: Any,
) -> AsyncIterator[Talking]:
    opener = FakeSessions(list(sessions), tuple(infos))
    front = LineModeApp(opener, History(None), first_message=first, guard_s=0.0, **options)
    typist = Typist()
    controller = Talking(front, typist, opener, asyncio.get_running_loop().create_task(front.run(typist)))
    try:
        yield controller
    finally:
        typist.close()
        await controller.running


def answered(text: str) -> tuple[TextDelta, TurnFinished]:
    return TextDelta(text), TurnFinished("answered", text)


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Talking, FakeSession]]:
    """A session that asks whether a command may run."""
    session = FakeSession([(ASKED, *answered("So be it."))])
    async with talking(session, first="go") as controller:
        await controller.shows("Question: Run this command?")
        yield controller, session


async def test_a_message_is_sent_and_its_answer_printed() -> None:
    session = FakeSession([answered("It is **done**.")])
    async with talking(session) as controller:
        await controller.rests()
        await controller.says("do it", shows="It is **done**.")
        await controller.rests()
        assert session.said == ["do it"]
    assert session.closed


async def test_what_is_typed_while_it_works_is_sent_after() -> None:
    hold = Hold()
    session = FakeSession([(hold, *answered("First.")), answered("Second.")])
    async with talking(session, first="one") as controller:
        await until(lambda: session.said == ["one"])
        await controller.says("two", shows="Queued")
        hold.event.set()
        await controller.shows("Second.")
        assert session.said == ["one", "two"]


async def test_what_waits_after_an_interruption_is_sent_when_it_is_wanted() -> None:
    session = FakeSession([(Hold(), *answered("First."))])
    async with talking(session, first="one") as controller:
        await until(lambda: session.said == ["one"])
        await controller.says("two", shows="Queued")
        controller.front.interrupt()
        await controller.shows("1 message not sent yet. An empty line sends them.")
        assert session.said == ["one"]
        controller.type("")
        await until(lambda: session.said == ["one", "two"])


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("y", Decision("allow")),
        ("a", Decision("allow", rule="bash(ls)")),
        ("not now", Decision("deny", note="not now")),
    ],
)
async def test_a_question_is_answered_with_a_line(line: str, decision: Decision) -> None:
    async with asking() as (controller, session):
        controller.type("")  # no answer
        await controller.says(line, shows="So be it.")
        assert session.answers == {"q1": decision}


async def test_a_command_is_changed_in_its_place() -> None:
    async with asking() as (controller, session):
        await controller.says("e", asks=COMMAND_PROMPT)
        assert controller.typist.begun == [(COMMAND_PROMPT, "ls")]
        await controller.shows("Type the command to run instead; an empty line returns to the question.")
        await controller.says("", asks="Answer: ")
        await controller.says("edit", asks=COMMAND_PROMPT)
        await controller.says("ls -l", shows="So be it.")
        assert session.answers == {"q1": Decision("allow", arguments={"command": "ls -l"})}


@pytest.mark.parametrize(("line", "note"), [("4", ""), ("n use make", "use make"), ("use make", "use make")])
async def test_a_denial_may_come_with_words(line: str, note: str) -> None:
    async with asking() as (controller, session):
        await controller.says(line, shows="So be it.")
        assert session.answers == {"q1": Decision("deny", note=note)}


async def test_further_rules_are_listed_when_they_are_asked_for() -> None:
    question = replace(ASKED, offers=("bash(=ls)", "bash(ls)"))
    session = FakeSession([(question, *answered("So be it."))])
    async with talking(session, first="go") as controller:
        await controller.shows("Question: Run this command?")
        await controller.says("r", shows="5: Yes, and don't ask again for this command this session")
        assert session.answers == {}
        await controller.says("5", shows="So be it.")
        assert session.answers == {"q1": Decision("allow", rule="bash(=ls)")}


async def test_a_command_is_run_while_a_question_is_open() -> None:
    async with asking() as (controller, session):
        await controller.says("/help", shows="/quit, quit Ebbtide")
        await controller.says("/compact", shows="`/compact` has to wait until the session is idle")
        await controller.says("/nothing", asks="Answer: ")
        assert session.answers == {}
        await controller.says("y", shows="So be it.")


async def test_what_was_looked_up_is_printed_before_the_question_that_follows() -> None:
    read = ToolStarted("0", "read", {"path": "a.py"}), ToolFinished("0", "read", "done", "x = 1\n")
    session = FakeSession([(*read, ASKED, *answered("So be it."))])
    async with talking(session, first="go") as controller:
        await controller.shows("Question: Run this command?")
        shown = controller.typist.shown
        assert shown.index("Tool read  a.py: done, 1 line.") < shown.index("Question: Run this command?")
        controller.type("y")


async def test_the_palette_runs_what_is_chosen_or_asks_for_what_it_lacks() -> None:
    choose = "Number, or words to find; an empty line closes: "
    async with talking(FakeSession(), FakeSession()) as controller:
        await controller.rests()
        await controller.says("/commands", asks=choose)
        assert any("more; type words to find them." in line for line in controller.typist.shown)
        await controller.says(next(line for line in controller.typist.shown if ": /clear, " in line).split(":")[0])
        await controller.says("/commands", asks=choose)
        await controller.says(next(line for line in controller.typist.shown if ": /why TEXT, " in line).split(":")[0])
        assert (len(controller.sessions.opened), controller.typist.given) == (2, ["/why "])


async def test_what_else_a_call_does_is_changed_in_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "y = 2" >"$1"\n')
    editor.chmod(0o755)
    asked = PermissionAsked("q1", "1", "write", {"path": "a.py", "content": "x = 1"}, "ask mode", "diff")
    session = FakeSession([(asked, *answered("So be it."))])
    async with talking(session, first="go") as controller:
        await controller.shows("Question: Change a.py?")
        monkeypatch.setenv("VISUAL", "/nowhere/at-all")
        await controller.says("e", shows="Error: `/nowhere/at-all` could not be started")
        monkeypatch.setenv("VISUAL", str(editor))
        await controller.says("e", shows="So be it.")
        assert session.answers == {"q1": Decision("edit", arguments={"path": "a.py", "content": "y = 2"})}


async def test_a_question_that_is_void_is_changed_no_more() -> None:
    async with asking() as (controller, session):
        await controller.says("e", asks=COMMAND_PROMPT)
        session.answer("q1", Decision("allow"))  # by a rule that was kept for another question
        await controller.shows("So be it.")
        await controller.rests()


async def test_a_message_is_written_in_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s and\\nmore\\n" "$(cat "$1")" >"$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    session = FakeSession([answered("Read.")])
    async with talking(session) as controller:
        await controller.rests()
        await controller.says("/editor this", shows="An empty line sends the message.")
        await controller.says("", shows="Read.")
        assert session.said == ["this and\nmore"]


async def test_models_are_told_with_what_they_cost_and_another_one_is_agreed_to() -> None:
    session = FakeSession(history=conversation(1))
    async with talking(session, FakeSession()) as controller:
        await controller.rests()
        await controller.says("/model openai/gpt-x", shows="price unknown")
        await controller.says("n")
        assert len(controller.sessions.opened) == 1
        await controller.says("/model openai/gpt-x", asks="y to switch; an empty line closes: ")
        await controller.says("y", shows="the model is now openai/gpt-x")


@pytest.mark.parametrize("edits", [True, False])
async def test_help_says_only_what_keys_do_here(edits: bool) -> None:
    async with talking(FakeSession()) as controller:
        await controller.rests()
        controller.typist.has_line_editing = edits
        await controller.says("/help", shows="/quit, quit Ebbtide")
        assert edits == any("Ctrl-R" in line for line in controller.typist.shown)


async def test_what_goes_wrong_beside_a_turn_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Hold()
    session = FakeSession([(hold, *answered("Done."))])

    async def fails(*_: object) -> NoReturn:
        raise StoreFailed("the disk is full", "full")

    monkeypatch.setattr(session, "prepare", fails)
    async with talking(session, first="go") as controller:
        await until(lambda: session.said == ["go"])
        await controller.shows("the disk is full")
        assert Notice("the disk is full") in controller.front.controller.view.blocks
        hold.event.set()
        await controller.shows("Done.")


async def test_two_questions_are_asked_one_after_the_other() -> None:
    session = FakeSession([(ASKED, QuestionAsked("q2", "Which?", ("red", "blue")), *answered("Good."))])
    async with talking(session, first="go") as controller:
        await controller.shows("Run this command?")
        await controller.says("y", shows="Which?")
        await controller.says("2", shows="Good.")
        assert session.answers == {"q1": Decision("allow"), "q2": "blue"}


async def test_a_line_that_was_begun_before_the_question_is_no_answer() -> None:
    session = FakeSession([(ASKED, *answered("Done."))])
    async with talking(session, first="go") as controller:
        controller.front._guard_s = 1_000.0
        controller.typist.arrival = KeyArrival(monotonic(), 1)
        await controller.shows("Run this command?")
        controller.type("also look at the tests")
        await controller.says("y", shows="'y' was typed too soon")
        assert session.answers == {}
        controller.front._guard_s = 0.0
        controller.type("n")
        await until(lambda: session.said == ["go", "also look at the tests"])


async def test_lines_that_came_at_once_answer_nothing_and_are_not_sent() -> None:
    async with asking() as (controller, session):
        controller.front._guard_s = ANSWER_GUARD_S
        came = monotonic() + 2
        controller.typist.arrival = KeyArrival(came, 1, is_alone=False)
        controller.type("y")
        await controller.says("always use round()", shows="'y' was typed too soon")
        await controller.shows("Not sent, because several lines arrived at once: always use round()")
        assert controller.typist.given == ["always use round()"]
        assert (session.answers, session.said) == ({}, ["go"])
        controller.typist.arrival = KeyArrival(came + 1, 3)
        controller.type("y")
        await until(lambda: session.answers == {"q1": Decision("allow")})


async def test_what_a_command_asks_is_answered_by_no_line_that_came_with_it() -> None:
    infos = [session_info("abc123", "first")]
    async with talking(FakeSession(), infos=infos) as controller:
        await controller.rests()
        controller.front._guard_s = ANSWER_GUARD_S
        controller.typist.arrival = KeyArrival(monotonic(), 1)
        await controller.says("/resume", asks="Number, or words to find; an empty line closes: ")
        await controller.says("1", shows="'1' was typed too soon")
        assert len(controller.sessions.opened) == 1


async def test_ctrl_c_ends_the_turn_and_then_twice_leaves() -> None:
    session = FakeSession([(Hold(),)], history=conversation(2))
    async with talking(session, first="go") as controller:
        await until(lambda: session.said == ["go"])
        for _ in range(3):
            controller.front.interrupt()
        assert await controller.running == "abc123"
    assert session.interrupted >= 1
    assert session.closed


async def test_a_review_and_a_file_of_instructions_are_shown_as_they_were_typed() -> None:
    session = FakeSession([answered("Fine."), answered("Written.")])
    async with talking(session) as controller:
        await controller.rests()
        await controller.says("/review the parser", shows="Fine.")
        await controller.rests()
        await controller.says("/init in German", shows="Written.")
    assert session.said == ["/review the parser [prompt 3 lines #1]", "/init in German [prompt 9 lines #2]"]
    review, init = (note.text for note in session.beside if isinstance(note, Note))
    assert review.startswith("[prompt 3 lines #1] is:\n\nReview the parser.\n\n")
    assert init.startswith("[prompt 9 lines #2] is:\n\nLook at this project")
    assert init.endswith("\n\nin German")


async def test_ctrl_d_leaves_a_turn_only_when_it_is_pressed_again() -> None:
    session = FakeSession([(Hold(),)])
    async with talking(session, first="go") as controller:
        await until(lambda: session.said == ["go"])
        assert [controller.front.handle_ctrl_d(), controller.front.handle_ctrl_d()] == [False, True]
        assert controller.typist.shown[-1] == "Press Ctrl-D again to quit."
        assert session.interrupted == 0


async def test_a_session_that_goes_on_says_how_it_was_left() -> None:
    async with talking(
        FakeSession(history=conversation(2), changes_while_closed=("calc.py has changed",))
    ) as controller:
        await controller.shows("Resumed after 2 messages from you. The last one:")
        await controller.shows("You: question 1")
        await controller.shows("Answer 1. It **fails**")
        await controller.shows("Note: calc.py has changed")


async def test_a_session_is_chosen_by_number_after_it_was_found_by_words() -> None:
    infos = tuple(session_info(f"id{number}", f"talk {number}") for number in range(30))
    async with talking(FakeSession(), infos=infos, chooses_from_list=True) as controller:
        await controller.shows("10 more; type words to find them.")
        await controller.says("talk 27", shows="28: talk 27")
        await controller.says("28", shows=f"Ebbtide {VERSION} in")
        assert controller.sessions.opened == [("id27", None)]


async def test_what_was_to_be_said_in_an_earlier_session_waits_when_none_is_chosen() -> None:
    session = FakeSession([answered("So be it.")])
    async with talking(
        session, infos=(session_info("old1", "work"),), chooses_from_list=True, first="go on"
    ) as controller:
        await controller.shows("1: work")
        await controller.says("", shows="1 message not sent yet. An empty line sends them.")
        assert (controller.sessions.opened, session.said) == ([(None, None)], [])
        await controller.says("", shows="So be it.")
        assert session.said == ["go on"]


async def test_what_goes_wrong_is_said_and_the_session_goes_on() -> None:
    session = FakeSession([(TurnFailed("auth", "no key; set `KEY`", 4),), answered("Better.")])
    async with talking(session, UsageError("there is no such model")) as controller:
        await controller.says("go", shows="Error: no key; set `KEY`")
        await controller.says("/model nobody/none", shows="Error: there is no such model")
        await controller.says("/modle", shows="unknown command `/modle`; did you mean `/mode` or `/model`?")
        await controller.rests()
        await controller.says("again", shows="Better.")


async def test_every_command_can_be_left_with_an_empty_line() -> None:
    async with talking(FakeSession(history=conversation(1)), infos=(session_info("x", "y"),)) as controller:
        await controller.rests()
        for command in COMMANDS:
            if command.name != "quit":
                controller.type(f"/{command.name}")
                await until(lambda: controller.typist.lines.empty())
                await controller.says("")
        assert not controller.running.done()


async def test_a_command_that_has_to_wait_says_so() -> None:
    session = FakeSession([(Hold(),)])
    async with talking(session, first="go") as controller:
        await until(lambda: session.said == ["go"])
        await controller.says("/compact", shows="`/compact` has to wait until the session is idle")
        controller.type("!make")
        await until(lambda: controller.typist.given == ["!make"])
        await controller.says("/help", shows="/quit, quit Ebbtide")


def test_lines_that_go_on() -> None:
    assert [is_continued(line) for line in ("a", "a\\", "a\\\\", "\\")] == [False, True, False, True]
    assert join_continued_lines(["a\\", "b\\", "c"]) == "a\nb\nc"


async def test_a_message_that_is_gone_back_to_is_written_in_a_fork() -> None:
    messages = (MessagePreview("abc123", 0, "first", 0.0), MessagePreview("abc123", 2, "second\x1b[2J", 0.0))
    tree = SessionTree((Branch("abc123", "", "", 0, messages, ((3, "calc.py"),), 4),))
    async with talking(FakeSession(history=conversation(2)), FakeSession(id="abc123f")) as controller:
        controller.sessions.listing = FakeLibrary(branches=tree)
        await controller.rests()
        await controller.says("/rewind", shows="A number: rewind; also `files 1`, `both 1`, `open 1`.")
        await controller.shows("1: second")
        await controller.says("1", shows="Files not restored: calc.py")
        assert controller.sessions.listing.done == [("fork", "abc123", 2, True)]
        assert controller.sessions.opened[-1] == ("abc123f", None)
