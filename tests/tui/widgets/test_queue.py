"""Messages that wait: in the queue, on its lines, and over the end of a session."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.events.session import ToolFinished, ToolStarted, TurnFailed, TurnFinished
from ebbtide.tui.session.drafts import Drafts
from ebbtide.tui.session.queue import MAX_QUEUE_LINES, MessageQueue, QueuedMessage, first_visible_index, queue_lines
from ebbtide.tui.view.blocks import Call, Notice, UserText
from ebbtide.tui.widgets.queue import QueueLines
from tests.kit.app_pilot import Terminal, terminal
from tests.kit.fake_sessions import FakeSession, Hears, Hold, conversation
from tests.kit.files import write_files

DONE = TurnFinished("answered", "x")
CALL = (ToolStarted("1", "bash", {"command": "make"}), ToolFinished("1", "bash", "done", "built"))


def filled(*texts: str) -> MessageQueue:
    """A queue; what begins with `later` is for later."""
    queue = MessageQueue()
    for text in texts:
        queue.add(text, is_later=text.startswith("later"))
    return queue


def test_a_step_takes_what_is_not_for_later_and_a_turn_begins_with_the_oldest_of_it() -> None:
    queue = filled("later a", "b", "c", "later d")
    assert queue.pop() == "b"
    assert (queue.take_for_step(), queue.take_for_step()) == (("c",), ())
    assert queue.items == (QueuedMessage("later a", True), QueuedMessage("later d", True))
    assert queue.texts == ("c", "later a", "later d")
    queue.confirm_delivered("c")
    assert (queue.pop(), queue.pop()) == ("later a", "later d")


def test_what_a_turn_took_and_did_not_hear_waits_again() -> None:
    queue = filled("a", "b", "later c")
    queue.take_for_step()
    queue.confirm_delivered("a")
    queue.return_undelivered()
    assert queue.items == (QueuedMessage("b"), QueuedMessage("later c", True))


@given(st.lists(st.sampled_from(["add", "later", "pop", "step", "heard", "back"]), max_size=30))
def test_nothing_is_lost_or_doubled(acts: list[str]) -> None:
    queue = MessageQueue()
    added: list[str] = []
    gone: list[str] = []
    lent: list[str] = []
    for number, act in enumerate(acts):
        match act:
            case "add" | "later":
                added.append(f"{act} {number}")
                queue.add(added[-1], is_later=act == "later")
            case "pop" if queue:
                gone.append(queue.pop())
            case "step":
                lent += queue.take_for_step()
            case "heard" if lent:
                queue.confirm_delivered(lent[0])
                gone.append(lent.pop(0))
            case "back":
                queue.return_undelivered()
                lent.clear()
        assert sorted((*gone, *queue.texts)) == sorted(added)


@given(st.integers(0, 12), st.none() | st.integers(0, 11))
def test_the_marked_line_and_the_last_one_are_on_the_screen(count: int, marked: int | None) -> None:
    items = tuple(QueuedMessage(f"message {number}") for number in range(count))
    marked = None if marked is None or marked >= count else marked
    first = first_visible_index(count, marked)
    lines = queue_lines(items, marked)
    assert len(lines) == min(count, MAX_QUEUE_LINES)
    assert 0 <= first <= max(0, count - MAX_QUEUE_LINES)
    assert marked is None or first <= marked < first + MAX_QUEUE_LINES
    assert marked is not None or first + len(lines) == count


def test_a_line_shows_nothing_that_steers_a_terminal() -> None:
    ((*_, (text, _)),) = queue_lines((QueuedMessage("two\nlines \x1b]0;x\x07"),), None)
    assert text == "two lines ␛]0;x␇"


def waiting(t: Terminal) -> list[str]:
    return list(t.app.controller.queue.texts)


def lines_of(t: Terminal) -> str:
    return str(t.app.query_one(QueueLines).render())


async def test_a_message_goes_in_at_the_next_step_and_one_for_later_waits_for_the_end() -> None:
    hold, last = Hold(), Hold()
    session = FakeSession([[hold, *CALL, Hears(), last, DONE], [DONE]])
    async with terminal(session) as t:
        await t.type("go", until=lambda: session.said)
        await t.type("/later and then rest")
        await t.type("use tabs")
        assert lines_of(t) == "later      and then rest\nnext step  use tabs"
        hold.event.set()
        await t.shows("use tabs")
        call = Call("1", "bash", {"command": "make"}, "done", text="built")
        assert t.app.controller.view.blocks == (UserText("go"), call, UserText("use tabs"))
        assert lines_of(t) == "later      and then rest"
        last.event.set()
        await t.rests()
        assert session.said == ["go", "and then rest"]
        assert not t.app.query_one(QueueLines).display


async def test_later_with_nothing_going_on_is_said_at_once_and_with_nothing_to_say_explained() -> None:
    session = FakeSession([[DONE]])
    async with terminal(session) as t:
        await t.type("/later", shows="type a message after /later")
        await t.type("/later hello", until=lambda: session.said == ["hello"])
        await t.rests()


async def test_the_queue_is_walked_edited_and_thinned_out() -> None:
    session = FakeSession([[Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("go", until=lambda: session.said)
        for text in ("one", "two", "three"):
            await t.type(text)
        await t.pilot.press("up", "up")
        assert "Enter edit  Del remove  two" in lines_of(t)
        await t.pilot.press("delete")
        assert waiting(t) == ["one", "three"]
        await t.press("up", "enter", until=lambda: t.prompt.has_focus)
        assert (t.prompt.text, waiting(t)) == ("one", ["three"])
        await t.pilot.press("!", "enter")
        assert waiting(t) == ["three", "one!"]
        await t.press("up", "down", until=lambda: t.prompt.has_focus)
        await t.press("up", "x", until=lambda: t.prompt.text == "x")
        await t.pilot.click(QueueLines, offset=(3, 0))
        await t.until(lambda: t.prompt.text == "three\n\nx")
        assert (waiting(t), session.interrupted) == (["one!"], 0)


async def test_a_queue_that_empties_while_it_is_walked_gives_the_keys_back() -> None:
    hold = Hold()
    session = FakeSession([[hold, Hears(), Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("go", until=lambda: session.said)
        await t.type("use tabs")
        await t.pilot.press("up")
        hold.event.set()
        await t.until(lambda: t.prompt.has_focus)
        await t.shows("use tabs")


async def test_what_waits_is_in_the_prompt_when_the_session_goes_on(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path / "drafts")
    session = FakeSession([[Hold(), DONE]], history=conversation(1))
    async with terminal(session, drafts=drafts) as t:
        await t.type("go", until=lambda: session.said)
        await t.type("one")
        assert Drafts(tmp_path / "drafts").has_draft(session.id)  # also when the program is killed now
        await t.type("/later two")
        t.prompt.set_text("half a thou")
        t.app.action_command("quit")
        await t.until(lambda: session.closed)
    assert drafts.has_draft(session.id)
    async with terminal(FakeSession(history=conversation(1)), drafts=Drafts(tmp_path / "drafts")) as t:
        assert t.prompt.text == "one\n\ntwo\n\nhalf a thou"
        notice = "your unsent text is back in the prompt"
        assert t.app.controller.view.blocks[-1] == Notice(notice)
        t.prompt.set_text("")
        await t.until(lambda: not drafts.has_draft(session.id))


async def test_what_is_being_written_is_kept_while_it_is_and_for_the_session_that_is_open(tmp_path: Path) -> None:
    first, second = FakeSession(id="first", history=conversation(1)), FakeSession(id="second", history=conversation(1))
    drafts = Drafts(tmp_path / "drafts")

    def drafts_of(id: str) -> tuple[str, ...]:
        found = Drafts(tmp_path / "drafts")
        texts = found.take(id)
        found.save(id, texts)
        return texts

    async with terminal(first, second, drafts=drafts) as t:
        t.prompt.set_text("half a thought")
        await t.until(lambda: drafts_of("first") == ("half a thought",))
        await t.press("enter")
        await t.until(lambda: not drafts.has_draft("first"))
        assert first.said == ["half a thought"]
        t.prompt.set_text("another")
        await t.until(lambda: drafts.has_draft("first"))
        await t.app.controller.open("second")
        assert not drafts.has_draft("first")
        t.prompt.set_text("another one")
        await t.until(lambda: drafts_of("second") == ("another one",))
        await t.app.controller.open("second", "scripted/other")
        t.app.context.presenter.show_session()
        assert t.prompt.text == "another one", "it is not given twice"


def test_a_pipe_in_the_place_of_what_was_kept_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "first.json")
    assert Drafts(tmp_path).take("first") == ()


async def test_a_turn_that_fails_gives_back_what_it_had_taken_too() -> None:
    failed = TurnFailed("full", "The disk is full. Make room.", 1)
    hold = Hold()
    session = FakeSession([[hold, failed]])
    async with terminal(session) as t:
        await t.type("go", until=lambda: session.said)
        await t.type("use tabs")
        assert t.app.controller.queue.take_for_step() == ("use tabs",)
        hold.event.set()
        await t.shows("The disk is full.")
        await t.rests()
        assert t.prompt.text == "use tabs"


def test_drafts_are_of_one_session_and_given_once(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path / "deep" / "drafts")
    drafts.save("a", ["one", "two\n\ud800"])
    drafts.save("b", ["three"])
    drafts.save("b", [])
    assert (drafts.has_draft("a"), drafts.has_draft("b")) == (True, False)
    assert (drafts.take("a"), drafts.take("a"), drafts.take("b")) == (("one", "two\n\ud800"), (), ())


def test_a_folder_that_cannot_be_written_or_a_file_that_is_none_costs_only_the_draft(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nowhere = Drafts(tmp_path / "file")
    nowhere.save("a", ["one"])
    assert (nowhere.take("a"), Drafts(None).take("a")) == ((), ())
    write_files(tmp_path, {"b.json": "[1, ", "c.json": '{"a": 1}'})
    drafts = Drafts(tmp_path)
    assert (drafts.take("b"), drafts.take("c")) == ((), ())


async def test_a_message_that_was_heard_meanwhile_is_neither_edited_nor_removed() -> None:
    hold = Hold()
    async with terminal(FakeSession([[hold, DONE]])) as t:
        for text in ("go", "one", "two"):
            await t.type(text)
        await t.until(lambda: len(t.app.controller.queue) == 2)
        first, _ = t.app.controller.queue.items
        assert t.app.controller.queue.pop() == "one"
        lines = t.app.main_screen.query_one(QueueLines)
        lines.post_message(QueueLines.EditRequested(first))
        lines.post_message(QueueLines.RemoveRequested(first))
        await t.pilot.pause()
        assert (t.prompt.text, t.app.controller.queue.texts) == ("", ("two",))
        hold.event.set()
        await t.rests()
