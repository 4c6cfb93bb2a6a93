"""What a message names is read when it is sent, in a real session on a scripted model."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.compaction.bring_back import require_stored
from ebbtide.agent.errors import ReferenceFailed
from ebbtide.agent.events.session import Event, Noticed, StepStarted, TurnFailed, TurnFinished, TurnStarted
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.messages import Conversation, Image, Note, Text, User
from ebbtide.agent.prompt.mentions import pasted_note
from ebbtide.agent.session import Session
from ebbtide.agent.view.references import message_digits
from ebbtide.tui.view.blocks import Notice
from ebbtide.tui.view.resumed import build_resumed_view
from tests.kit.project import Project
from tests.kit.session import events_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Sent:
    """What the model was told with a message, and what the user was."""

    def __init__(self, message: User, notices: Sequence[str]) -> None:
        self.message = message
        self.notes = [part.text for part in message.parts if isinstance(part, Note)]
        self.notices = list(notices)


@pytest.fixture(autouse=True)
def files(project: Project) -> None:
    (project.root / "src" / "inner").mkdir(parents=True)
    (project.root / ".git").mkdir()
    (project.root / ".gitignore").write_text("*.log\n")
    (project.root / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (project.root / "src" / "b c.txt").write_text("blank\n")
    (project.root / "src" / "noise.log").write_text("ignored\n")
    (project.root / "src" / "inner" / "deep.py").write_text("")


async def test_a_name_that_looks_the_same_is_attached_and_told(project: Project) -> None:
    (project.root / "Shot 3.04\u202fPM.txt").write_text("shown\n")
    sent = await said(project, 'Look at @"Shot 3.04 PM.txt"')
    assert "1\tshown" in sent.notes[0]
    assert sent.notices[0] == (
        '@"Shot 3.04 PM.txt" (there is no `Shot 3.04 PM.txt`: this is `Shot 3.04\u202fPM.txt`, whose name looks '
        "the same)"
    )


async def said(project: Project, text: str, window: int = 200_000, deny: Sequence[str] = ()) -> Sent:
    denied: dict[str, Any] = {"permissions.deny": list(deny)}
    return await _told(await project.session({"text": "Seen."}, window=window, **denied), text)


async def _told(session: Session, text: str, *attachments: Image | Note) -> Sent:
    events = await events_of(session, text, attachments)
    first = session.history.messages[0]
    assert isinstance(first, User)
    return Sent(first, [event.text for event in events if isinstance(event, Noticed)])


async def test_a_file_a_part_of_one_and_a_folder_come_with_the_message(project: Project) -> None:
    sent = await said(project, "explain @src/a.py, @src/a.py:2-2 and @src/")
    assert sent.message.parts[0] == Text("explain @src/a.py, @src/a.py:2-2 and @src/")
    assert sent.notes == [
        "`@src/a.py` holds:\n\n1\tone\n2\ttwo\n3\tthree",
        "`@src/a.py:2` holds:\n\n2\ttwo\n(lines 2-2 of 3; go on with offset=3)",
        "The folder `@src/` holds:\n\na.py\nb c.txt\ninner/",
    ]
    assert sent.notices == ["attached `@src/a.py` (3 lines), `@src/a.py:2` (1 line of it), `@src/` (folder, 3 entries)"]
    assert build_resumed_view(Conversation((sent.message,))).blocks[1:] == (Notice(sent.notices[0]),)


async def test_names_with_blanks_stand_in_quotation_marks_and_must_be_there(project: Project) -> None:
    sent = await said(project, '@"src/b c.txt" and @"not there"')
    assert sent.notes == ['`@"src/b c.txt"` holds:\n\n1\tblank']
    assert sent.notices[0] == '`@"not there"` is not attached: there is no such file'


async def test_decorators_and_addresses_are_left_alone(project: Project) -> None:
    sent = await said(project, "why does @pytest.fixture fail for me@src/a.py and @types/node?")
    assert (sent.notes, sent.notices) == ([], [])


async def test_what_may_not_be_read_is_not_and_that_is_told(project: Project) -> None:
    (project.folder / "outside.txt").write_text("secret")
    (project.root / "link").symlink_to(project.folder / "outside.txt")
    sent = await said(project, "@../outside.txt @link @src/a.py", deny=["read(src/a.py)"])
    assert sent.notes == []
    outside = f"`{project.folder}/outside.txt` is outside the working folder"
    assert sent.notices == [
        f"`@../outside.txt` is not attached: {outside}",
        f"`@link` is not attached: {outside}",
        "`@src/a.py` is not attached: deny rule read(src/a.py)",
    ]


async def test_large_files_are_shown_in_part_and_never_overflow_a_small_window(project: Project) -> None:
    for number in range(5):
        (project.root / f"{number}.txt").write_text("x" * 60 + "\n" + "a line\n" * 50_000)
    sent = await said(project, "@0.txt @1.txt @2.txt @3.txt @4.txt", window=60_000)
    assert sum(map(len, sent.notes)) < 33_000
    assert "go on with offset=" in sent.notes[0]
    assert "earlier attachments leave no room for it" in sent.notices[0]


async def test_pictures_are_shown_to_the_model(project: Project) -> None:
    (project.root / "dot.png").write_bytes(PNG)
    sent = await said(project, "what is @dot.png?")
    assert Image("image/png", base64.b64encode(PNG).decode()) in sent.message.parts
    assert sent.notices == ["attached `@dot.png` (image, 1×1)"]
    assert build_resumed_view(Conversation((sent.message,))).blocks[1:] == (Notice(sent.notices[0]),)


async def test_what_is_no_text_is_told(project: Project) -> None:
    (project.root / "data.bin").write_bytes(bytes(range(256)) * 20)
    sent = await said(project, "@data.bin")
    assert sent.notes == []
    assert sent.notices[0].startswith("`@data.bin` is not attached: `data.bin` is")


async def test_a_huge_paste_is_shown_in_part_and_found_again(project: Project) -> None:
    whole = "first line\n" + "".join(f"line {number}\n" for number in range(150_000)) + "last line"
    note = pasted_note("[pasted 150,002 lines #1]", whole)
    session = await project.session({"text": "Seen."})
    sent = await _told(session, "look at [pasted 150,002 lines #1]", note)
    (paste_note,) = sent.notes
    assert len(paste_note) < 121_000
    assert paste_note.startswith("What the user pasted as [pasted 150,002 lines #1]:\n\nfirst line\n")
    assert paste_note.endswith("last line")
    ref = paste_note.partition('ref_id="')[2].partition('"')[0]
    found = await session.archive_listing.page(ref, 77_780, 4)
    assert "line 77777" in "\n".join(found.lines)
    await session.close()
    again = await project.session(resume=session.id)
    assert again.history.messages[0] == sent.message


async def test_what_is_sent_and_interrupted_at_once_is_cut_all_the_same(project: Project) -> None:
    session = await project.session({"text": "Seen."}, window=60_000)
    servers: Any = Waiting()
    session._ctx = replace(session._ctx, calls=replace(session._ctx.calls, servers=servers))
    huge = pasted_note("[pasted #1]", "line of text\n" * 50_000)
    async for event in session.send("look", [huge]):
        if isinstance(event, TurnStarted):
            asyncio.get_running_loop().call_soon(session.interrupt)
    first = session.history.messages[0]
    assert isinstance(first, User)
    assert [(part.whole == huge.text, len(part.text) < 30_000) for part in first.parts if isinstance(part, Note)] == [
        (True, True)
    ]
    session._ctx = replace(session._ctx, calls=replace(session._ctx.calls, servers=None))
    assert (await events_of(session, "now?"))[-1] == TurnFinished("answered", "Seen.")


async def test_what_comes_with_many_messages_of_one_turn_never_fills_the_window_for_good(project: Project) -> None:
    todo = {"text": "I go on.", "calls": [{"name": "todo", "arguments": {"items": []}}]}
    replies: list[Mapping[str, object]] = [*[todo] * 8, {"text": "Done."}, {"text": "Still here."}]
    session = await project.session(*replies, window=60_000, background_at=1.0)
    waiting: list[User] = []

    def pending_messages() -> Sequence[User]:
        messages = tuple(waiting)
        waiting.clear()
        return messages

    events: list[Event] = []
    async for event in session.send(
        "go", [pasted_note("[#0]", "line of text\n" * 2_000)], pending_messages=pending_messages
    ):
        if isinstance(event, StepStarted) and event.step < 8:
            number = event.step
            waiting.append(
                User((Text(f"look at [#{number}]"), pasted_note(f"[#{number}]", f"other {number}\n" * 2_500)))
            )
        events.append(event)
    assert events[-1] == TurnFinished("answered", "Done.")
    assert "attachments" in [how for event in events if isinstance(event, ContextCompacted) for how in event.strategies]
    assert (await events_of(session, "now?"))[-1] == TurnFinished("answered", "Still here.")
    asked = [part.text for part in session.history.summary.request.parts if isinstance(part, Text)]
    assert asked == ["go", *(f"look at [#{number}]" for number in range(1, len(asked)))]
    for name, text in (("go", "line of text"), ("look at [#3]", "other 3")):
        page = await session.archive_listing.page(f"msg-{message_digits(User((Text(name),)))}", 1_000, 2)
        assert page.lines == (text, text)


async def test_pictures_that_a_window_cannot_hold_are_found_by_reference(project: Project) -> None:
    session = await project.session({"text": "Seen."}, {"text": "Yes."}, window=32_000)
    pictures = [Image("image/png", base64.b64encode(PNG[:16] + bytes([0, 0, 7, number, 0, 0, 7, 0])).decode())
                for number in range(14)]  # fmt: skip
    assert (await events_of(session, "look", pictures))[-1] == TurnFinished("answered", "Seen.")
    assert (await events_of(session, "sure?"))[-1] == TurnFinished("answered", "Yes.")
    ref = f"msg-{message_digits(User((Text('look'),)))}"
    recall = require_stored(session._ctx.records.archive).recall
    for number in (1, 14):
        found = await recall.fetch(f"{ref}:tool-{number}")
        assert (found.media_type, base64.b64encode(found.content.read(0, 99)).decode()) == (
            "image/png",
            pictures[number - 1].data,
        )
    with pytest.raises(ReferenceFailed, match="has 14 images"):
        await recall.fetch(f"{ref}:tool-15")


async def test_a_message_that_another_model_has_no_room_for_is_shown_to_it_in_part(project: Project) -> None:
    session = await project.session({"error": "auth"}, window=200_000)
    paste = pasted_note("[#1]", "line of text number\n" * 5_900)
    assert isinstance((await events_of(session, "look", [paste]))[-1], TurnFailed)
    await session.close()
    model = f"scripted/{project.script({'text': 'Seen.'}, window=32_000, name='smaller')}"
    session = await project.sessions(model=model).open(session.id)
    assert (await events_of(session, "again"))[-1] == TurnFinished("answered", "Seen.")


class Waiting:
    """Servers that are never settled."""

    async def prepare_turn(self, *, is_first: bool) -> None:
        await asyncio.Event().wait()

    async def expand_mentions(self, message: User) -> User:
        return message


HUGE = "first\n" + "a line of a log\n" * 60_000 + "last"


async def test_a_session_whose_message_never_fitted_goes_on_with_the_next(project: Project) -> None:
    session = await project.session({"text": "Here."}, {"text": "Still."}, window=32_000)
    await session._ctx.records.recorder.record_user_message(User((Text(HUGE),)))
    await session.close()
    session = await project.session({"text": "Here."}, {"text": "Still."}, window=32_000, resume=session.id)
    assert session.history.messages == (User((Text(HUGE),)),)
    for asked, answer in (("what now?", "Here."), ("and now?", "Still.")):
        assert (await events_of(session, asked))[-1] == TurnFinished("answered", answer)
    texts = [part.text for part in session.history.summary.request.parts if isinstance(part, Text)]
    assert texts[0].startswith("first\n")
    assert texts[0].endswith("last")
    page = await session.archive_listing.page(f"msg-{message_digits(User((Text(HUGE),)))}", 59_999, 2)
    assert page.lines == ("a line of a log", "a line of a log")


@pytest.mark.parametrize("window", [16_000, 200_000])
async def test_what_is_said_at_length_while_a_turn_runs_is_shown_in_part(project: Project, window: int) -> None:
    todo = {"text": "I go on.", "calls": [{"name": "todo", "arguments": {"items": []}}]}
    replies: list[Mapping[str, object]] = [*[todo] * 4, {"text": "Done."}]
    session = await project.session(*replies, window=window)
    waiting = [User((Text(f"{number}: {HUGE}"),)) for number in range(4)]

    def pending_messages() -> Sequence[User]:
        return (waiting.pop(),) if waiting else ()

    events = [event async for event in session.send("go", pending_messages=pending_messages)]
    assert events[-1] == TurnFinished("answered", "Done.")
    for number in range(4):
        page = await session.archive_listing.page(
            f"msg-{message_digits(User((Text(f'{number}: {HUGE}'),)))}", 3, 60_002
        )
        assert "\n".join(page.lines) == f"{number}: {HUGE}"
