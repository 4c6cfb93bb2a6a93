"""`/key`: a wrong key is replaced inside the session, and neither terminal shows it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Static

from ebbtide.agent.providers.keys import KeyStore, sign_in_store
from ebbtide.agent.providers.setup import find_endpoint
from ebbtide.tui.app import EbbApp
from ebbtide.tui.commands.provider_keys import build_keys_panel
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.widgets.key_line import KeyLine
from tests.kit.app_pilot import Driven
from tests.kit.every_screen import take_key
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.fake_sessions import FakeSession, FakeSessions
from tests.kit.pictures import SIZES, Picture, asks
from tests.kit.user_settings import Setup
from tests.tui.plain.test_app import talking
from tests.tui.plain.test_panel import chooses

SECRET, MODEL = "sk-not-to-be-seen", "anthropic/claude-sonnet-5-5"


@pytest.fixture
def server() -> Iterator[FakeProvider]:
    with FakeProvider([Turn(status=401), Turn(text="ready")]) as server:
        yield server


def said_on(screen: Screen[Any]) -> str:
    return f"{screen.query_one('#said', Static).render()}{screen.query_one(KeyLine).text}"


def key_in_use(setup: Setup) -> str | None:
    return find_endpoint("anthropic", setup.load().provider_config("anthropic"), setup.settings.environment).key


async def test_a_wrong_key_in_a_variable_is_replaced_on_the_screen(tmp_path: Path, server: FakeProvider) -> None:
    setup = Setup(tmp_path, environment={"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-old"})
    opener = FakeSessions([FakeSession(model=MODEL), FakeSession(model=MODEL)])
    app = EbbApp(opener, guard_s=0.0, settings=lambda: setup.settings)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = Driven(app, pilot)
        await screen.rests()
        await screen.press(*"/key", "enter", lists="key")
        await screen.press("enter", *"sk-wrong", "enter", until=lambda: len(server.requests) == 1)
        screen_now = app.screen
        await screen.until(lambda: "rejected the API key" in said_on(screen_now))
        assert (len(opener.opened), key_in_use(setup)) == (1, "sk-old")
        await screen.pilot.press(*SECRET)
        assert SECRET not in app.export_screenshot()
        await screen.press("enter", until=lambda: len(opener.opened) == 2)
        await screen.shows("the new key for anthropic is stored and in use. ANTHROPIC_API_KEY")
        assert opener.opened == [(None, None), (None, MODEL)]
    assert [one.headers["x-api-key"] for one in server.requests] == ["sk-wrong", SECRET]
    assert (key_in_use(setup), KeyStore(setup.file.parent).read_key("anthropic")) == (SECRET, SECRET)


async def test_a_key_is_replaced_in_lines(
    tmp_path: Path, server: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(tmp_path, environment={"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-old"})
    typed = iter(["sk-wrong", SECRET])
    monkeypatch.setattr("ebbtide.tui.plain.panel.read_hidden", lambda question: next(typed))
    async with talking(FakeSession(model=MODEL), settings=setup.settings) as controller:
        await controller.rests()
        await chooses(controller, "/key", "1")
        await controller.shows("rejected the API key")
        await controller.shows("the new key for anthropic is stored and in use")
        controller.type(f"/key {SECRET}")
        await controller.shows("Type `/key PROVIDER` (anthropic, openai, openai-chat, ollama, cerebras,")
    assert key_in_use(setup) == SECRET


async def test_a_stored_key_that_a_command_will_override_is_in_use_until_the_end(
    tmp_path: Path, server: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = '[providers.anthropic]\nkey_command = "false"\n'
    setup = Setup(tmp_path, written, {"ANTHROPIC_BASE_URL": server.url})
    typed = iter(["sk-wrong", SECRET])
    monkeypatch.setattr("ebbtide.tui.plain.panel.read_hidden", lambda question: next(typed))
    async with talking(FakeSession(model=MODEL), settings=setup.settings) as controller:
        await controller.rests()
        await chooses(controller, "/key", "1")
        await controller.shows("stored and in use. `providers.anthropic.key_command` overrides it in later runs")
    assert key_in_use(setup) == SECRET


async def test_a_key_for_a_provider_of_which_no_model_is_known_is_stored_untried(
    tmp_path: Path, server: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(tmp_path, environment={"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-old"})
    monkeypatch.setattr("ebbtide.tui.plain.panel.read_hidden", lambda question: SECRET)
    async with talking(FakeSession(model=MODEL), settings=setup.settings) as controller:
        await controller.rests()
        controller.type("/key openai-chat")
        await controller.shows("no model of openai-chat is in use. Press Enter again to save it untested")
        await controller.shows("the new key for openai-chat is stored and in use")
    assert (KeyStore(setup.file.parent).read_key("openai-chat"), server.requests) == (SECRET, [])


async def test_a_subscription_is_signed_in_to_in_a_shell(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with talking(FakeSession(model=MODEL), settings=setup.settings) as controller:
        await controller.rests()
        controller.type("/key chatgpt")
        await controller.shows(
            "ChatGPT has no keys: run `ebb key sign-in chatgpt` in a shell, then type `/key chatgpt`"
        )
        sign_in_store(setup.file.parent).store_key("chatgpt", "https://api.openai.com", "{}", "me")
        controller.type("/key chatgpt")
        await controller.shows("signed in to ChatGPT: choose a model with `/model chatgpt/`")
    async with talking(FakeSession(model="chatgpt/gpt-6-sol"), settings=setup.settings) as controller:
        await controller.rests()
        await chooses(controller, "/key", "")
        await controller.rests()
        listed = "\n".join(controller.typist.shown)
    assert re.findall(r"^\d: (\S+),", listed, re.M) == ["anthropic", "openai"]
    endpoint = find_endpoint("chatgpt", setup.load().provider_config("chatgpt"), setup.settings.environment)
    assert (endpoint.base_url, endpoint.key) == ("https://api.openai.com/v1", None)


@SIZES
def test_the_providers_whose_keys_can_be_replaced(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession()]))
    panel = build_keys_panel(("anthropic", "openai"), {"anthropic": "ANTHROPIC_API_KEY"}, take_key)
    assert picture(app, asks(app, PanelScreen), start=lambda: app.push_screen(PanelScreen(panel)))
