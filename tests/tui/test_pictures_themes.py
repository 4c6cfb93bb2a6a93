"""Pictures of a conversation in every theme. Look at every one that changes."""

from ebbtide.agent.config.options import ThemeName
from ebbtide.agent.events.permissions import PermissionAsked
from ebbtide.tui.app import EbbApp
from ebbtide.tui.text.themes import BackgroundTone
from tests.kit.fake_sessions import FakeSession, FakeSessions
from tests.kit.pictures import WORN, Picture, asks
from tests.tui.test_snapshots import QUESTION, REST, TURN


@WORN
def test_a_conversation(picture: Picture, theme: ThemeName, ground: BackgroundTone | None) -> None:
    session = FakeSession([[event for event in TURN if event is not QUESTION] + REST])
    app = EbbApp(FakeSessions([session]), first_message="the tests fail, fix them", guard_s=0.0, theme=theme)
    assert picture(app, "ctrl+f", *"add", "enter", ground=ground)


@WORN
def test_a_question_with_a_diff(picture: Picture, theme: ThemeName, ground: BackgroundTone | None) -> None:
    app = EbbApp(FakeSessions([FakeSession([TURN])]), first_message="the tests fail", guard_s=0.0, theme=theme)
    assert picture(app, asks(app, PermissionAsked), ground=ground)
