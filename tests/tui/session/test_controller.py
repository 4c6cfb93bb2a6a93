"""The session that the terminal shows, without a terminal."""

from dataclasses import dataclass, replace
from functools import partial

from ebbtide.agent.errors import AgentError, StoreFailed
from ebbtide.agent.events.session import ContextMeasured
from ebbtide.agent.events.view import BroughtBack
from ebbtide.agent.hooks.session_hooks import EndReason
from ebbtide.agent.messages import Usage
from ebbtide.agent.prompt.reminder_notes import MODE_DESCRIPTIONS
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.records.token_key import KEY_FILE, load_or_create_token_key
from ebbtide.agent.view.provenance import Occurrence, Occurrences
from ebbtide.tui.commands.context import find_text, put_back
from ebbtide.tui.commands.sessions import switch_mode
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.view.blocks import Failure, Notice
from tests.kit.fake_sessions import FakeSession, FakeSessions, conversation
from tests.kit.project import Project
from tests.kit.session import bash, calls
from tests.tools.secrets.test_key_formats import KEYS


async def test_why_gives_what_there_is_to_look_at_and_tells_nothing() -> None:
    places = (Occurrence("r1", "masked", "Ran: ls – exit 0"), Occurrence("msg-1", "summarised", "you said", "sum-2"))
    controller = SessionController(FakeSessions([FakeSession(places=places)]), lambda: None)
    await controller.open()
    assert await find_text(controller, "needle") == Occurrences(places)
    assert (controller.view.blocks, controller.is_busy) == ((), False)


async def test_why_says_so_when_a_text_was_never_seen_and_shows_no_orders_to_the_terminal() -> None:
    controller = SessionController(
        FakeSessions([FakeSession(unsearched=("the end of r1 was not searched",))]), lambda: None
    )
    await controller.open()
    assert not (await find_text(controller, "a\x1b[31m")).occurrences
    assert await find_text(controller, "") == Occurrences()
    assert controller.view.blocks == (
        Notice("the model has never seen `a␛[31m` in this session\nthe end of r1 was not searched"),
        Notice("type some text after `/why`, such as `/why parse_date`"),
    )


async def test_what_is_brought_back_is_told() -> None:
    session = FakeSession()
    controller = SessionController(FakeSessions([session]), lambda: None)
    await controller.open()
    await put_back(controller, "")
    await put_back(controller, "r12")
    assert session.said == ["bring r12"]
    note = Notice("`r12` is back in context, at the end of the conversation (1,200 tokens)")
    assert controller.view.blocks[-1] == note
    assert (controller.view.used_tokens, controller.view.available_tokens) == (25_300, 180_000)


async def test_what_cannot_be_brought_back_is_told_in_a_sentence() -> None:
    @dataclass
    class Lost(FakeSession):
        async def bring_back(self, ref: str, *, is_dry_run: bool = False) -> BroughtBack:
            raise AgentError("there is no `r12`")

    controller = SessionController(FakeSessions([Lost()]), lambda: None)
    await controller.open()
    await put_back(controller, "r12")
    assert controller.view.blocks == (Failure("error", "there is no `r12`"),)
    assert not controller.is_busy


async def test_modes_are_gone_through_without_the_one_that_asks_nothing() -> None:
    session = FakeSession(mode="auto")
    controller = SessionController(FakeSessions([session]), lambda: None)
    assert await switch_mode(controller, "") == ""
    await controller.open()
    messages = [(await switch_mode(controller, "")).partition(":")[0] for _ in range(4)]
    assert messages == ["ask", "accept-edits", "plan", "ask"]
    assert await switch_mode(controller, "auto") == f"auto: {MODE_DESCRIPTIONS['auto']}"
    assert (session.mode, controller.view.mode) == ("auto", "auto")
    assert await switch_mode(controller, "yolo") == ""
    assert controller.view.blocks == (Notice("unknown mode `yolo`. Modes: `ask`, `accept-edits`, `plan`, `auto`"),)


async def test_what_goes_on_is_measured_before_anything_is_sent() -> None:
    counted = replace(conversation(1), anchor=Usage(60_000, 0, 0, 9_000), anchored=2)
    for history, is_guess in ((conversation(1), True), (counted, False)):
        session = FakeSession(history=history)
        controller = SessionController(FakeSessions([session]), lambda: None)
        await controller.open("abc123")
        await controller.measure_context()
        assert (controller.view.used_tokens, controller.view.available_tokens, controller.view.is_estimate) == (
            69_540,
            175_424,
            is_guess,
        )
        assert dict(controller.view.component_tokens)["history"] == 61_300
        assert session.said == []
        controller.show_event(ContextMeasured(70_000, 200_000, 175_000))
        await controller.measure_context()
        assert (controller.view.used_tokens, controller.view.is_estimate) == (70_000, False)


async def test_a_new_session_is_not_measured() -> None:
    controller = SessionController(FakeSessions(), lambda: None)
    await controller.measure_context()
    await controller.open()
    await controller.measure_context()
    assert (controller.view.used_tokens, controller.view.component_tokens) == (0, ())


@dataclass
class Stuck(FakeSession):
    """A session that cannot write its end down."""

    async def close(self, reason: EndReason | None = "other") -> None:
        raise StoreFailed("the disk is full", "full")


async def test_a_session_that_cannot_be_closed_makes_room_for_another_all_the_same() -> None:
    controller = SessionController(FakeSessions([Stuck(id="old"), FakeSession(id="next")]), lambda: None)
    await controller.open()
    assert await controller.open()
    assert controller.session is not None
    assert (controller.session.id, controller.view.blocks) == ("next", (Notice("the disk is full"),))


async def test_a_session_that_is_opened_again_shows_tokens_in_the_place_of_secrets(project: Project) -> None:
    key = KEYS["stripe-key"]
    token = SecretTokens({}, partial(load_or_create_token_key, project.config().folders.data / KEY_FILE)).hide(key)
    (project.root / "key.txt").write_text(f"key {key}\n")
    first = await project.session({**calls(bash("cat key.txt")), "text": key}, {"text": "done"}, mode="auto")
    async for _ in first.send(f"use {key}"):
        pass
    await project.close()
    controller = SessionController(project.sessions(), lambda: None)
    await controller.open_first_session(first.id, None)
    text = repr(controller.view)
    assert (key in text, text.count(token)) == (False, 3)
    await controller.close()
