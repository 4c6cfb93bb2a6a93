"""The first run: what was found is offered, what is chosen is written, and a key never is."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.events import AppBlur, Paste
from textual.widgets import Input, Static

from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.errors import AuthFailed, UsageError
from ebbtide.agent.providers import first_run
from ebbtide.agent.providers.first_run import (
    DetectedKey,
    LocalModelServer,
    detect_keys,
    detect_local_servers,
    find_ollama_url,
)
from ebbtide.agent.providers.keys import read_stored_key
from ebbtide.agent.providers.setup import find_endpoint, is_first_run
from ebbtide.tui.app import EbbApp
from ebbtide.tui.commands.first_run import build_first_run_panel, build_first_run_rows
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.view.greeting import build_model_choice_notes
from ebbtide.tui.widgets.key_line import KeyLine
from tests.kit.app_pilot import Driven
from tests.kit.every_screen import take_key
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.fake_sessions import FakeSession, FakeSessions
from tests.kit.pictures import SIZES, Picture, asks
from tests.kit.user_settings import Setup
from tests.kit.web_server import web_server

SECRET = "sk-not-to-be-seen"
OLLAMA = LocalModelServer("Ollama", "http://127.0.0.1:11434", ("qwen3:8b",))
STUDIO = LocalModelServer("LM Studio", "http://127.0.0.1:1234/v1", ("devstral",))


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.tui.commands.first_run.detect_local_servers", lambda url: ())


@asynccontextmanager
async def starting(
    folder: Path, environment: dict[str, str] | None = None, written: str = "", *first: FakeSession | UsageError
) -> AsyncIterator[tuple[Driven, FakeSessions, Setup]]:
    setup, opener = Setup(folder, written, environment or {}), FakeSessions(list(first))
    app = EbbApp(opener, guard_s=0.0, settings=lambda: setup.settings)
    async with app.run_test(size=(80, 24)) as pilot:
        yield Driven(app, pilot), opener, setup


def told(screen: Driven) -> str:
    screen_now = screen.app.screen
    return f"{screen_now.query_one('#said', Static).render()}\n{screen_now.query_one(KeyLine).text}"


def looked_again(screen: Driven) -> bool:
    screen_now = screen.app.screen
    return isinstance(screen_now, PanelScreen) and "Refreshed" in str(screen_now.panel.headline)


async def test_a_model_of_this_machine_is_chosen_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.tui.commands.first_run.detect_local_servers", lambda url: (OLLAMA, STUDIO))
    async with starting(tmp_path) as (screen, opener, setup):
        await screen.lists("first-run")
        await screen.press("enter")
        assert opener.opened == [(None, "ollama/qwen3:8b")]
        assert setup.written == '[agent]\nmodel = "ollama/qwen3:8b"\n'


async def test_a_server_that_is_started_meanwhile_is_found_without_a_new_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([(), (OLLAMA,)])
    monkeypatch.setattr("ebbtide.tui.commands.first_run.detect_local_servers", lambda url: next(found))
    async with starting(tmp_path) as (screen, opener, _):
        await screen.lists("first-run")
        await screen.press(*"ollama", "enter", until=lambda: looked_again(screen))
        await screen.press("enter", until=lambda: opener.opened)
        assert opener.opened == [(None, "ollama/qwen3:8b")]


async def test_a_model_of_another_server_of_this_machine_is_reached_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tui.commands.first_run.detect_local_servers", lambda url: (OLLAMA, STUDIO))
    async with starting(tmp_path) as (screen, opener, setup):
        await screen.lists("first-run")
        await screen.press("down", "enter")
        assert opener.opened == [(None, "openai-chat/devstral")]
        assert setup.load().provider_config("openai-chat").base_url == STUDIO.url


async def test_a_key_that_is_typed_is_tried_kept_and_never_shown(tmp_path: Path) -> None:
    answers = [Turn(status=401), Turn(text="ready")]
    with FakeProvider(answers) as server:
        environment = {"ANTHROPIC_BASE_URL": server.url}
        async with starting(tmp_path, environment) as (screen, opener, setup):
            await screen.lists("first-run")
            await screen.press(
                *"anthropic", "enter", *"sk-wrong", "enter", until=lambda: "sk-wrong" in str(server.requests)
            )
            await screen.until(lambda: "key" in told(screen) and "testing" not in told(screen))
            assert opener.opened == []
            await screen.pilot.press(*SECRET)  # in the place of the one that was refused
            assert SECRET not in screen.pilot.app.export_screenshot()
            await screen.press("enter", until=lambda: opener.opened)
        assert opener.opened == [(None, ANTHROPIC)]
        assert [one.headers["x-api-key"] for one in server.requests] == ["sk-wrong", SECRET]
        assert read_stored_key(setup.settings.environment, "anthropic", server.url) == SECRET
        file = setup.file.with_name("keys.json")
        assert (file.stat().st_mode & 0o777, SECRET in setup.written) == (0o600, False)


async def test_a_key_is_pasted_into_a_terminal_that_has_no_focus(tmp_path: Path) -> None:
    with FakeProvider([Turn(text="ready")]) as server:
        async with starting(tmp_path, {"ANTHROPIC_BASE_URL": server.url}) as (screen, opener, _):
            await screen.lists("first-run")
            screen.app.post_message(AppBlur())
            screen.app.post_message(Paste("anthropic"))
            await screen.until(lambda: screen.app.screen.query_one("#filter", Input).value == "anthropic")
            await screen.press("enter", until=lambda: screen.app.screen.query_one("#note").has_focus)
            screen.app.post_message(AppBlur())
            screen.app.post_message(Paste(f"{SECRET}\n"))
            await screen.until(lambda: screen.app.screen.query_one("#note", Input).value)
            await screen.press("enter", until=lambda: opener.opened)
        assert dict(server.requests[0].headers)["x-api-key"] == SECRET


async def test_a_key_that_cannot_be_tried_is_kept_when_it_is_given_again(tmp_path: Path) -> None:
    environment = {"OPENAI_BASE_URL": "http://127.0.0.1:9"}
    async with starting(tmp_path, environment) as (screen, opener, setup):
        await screen.lists("first-run")
        await screen.press(*"openai", "enter", *SECRET, "enter", until=lambda: "Press Enter again" in told(screen))
        await screen.press("enter", until=lambda: opener.opened)
        assert opener.opened == [(None, OPENAI)]
        assert read_stored_key(setup.settings.environment, "openai", "http://127.0.0.1:9") == SECRET


async def test_a_key_of_another_name_is_used_and_not_written(tmp_path: Path) -> None:
    async with starting(tmp_path, {"WORK_ANTHROPIC_KEY": SECRET}) as (screen, opener, setup):
        await screen.lists("first-run")
        await screen.press("enter")
        assert opener.opened[0][1] == "anthropic/claude-sonnet-5-5"
        assert 'api_key_env = "WORK_ANTHROPIC_KEY"' in setup.written
        assert SECRET not in setup.written
        assert setup.load().provider_config("anthropic").api_key_env == "WORK_ANTHROPIC_KEY"


async def test_any_model_may_be_chosen_and_what_it_needs_is_told(tmp_path: Path) -> None:
    async with starting(tmp_path) as (screen, opener, setup):
        await screen.lists("first-run")
        await screen.press(*"compatible", until=lambda: "base_url" in told(screen))
        await screen.pilot.press("enter")
        await screen.until(lambda: looked_again(screen))
        await screen.press(*"pick from", "enter", lists="model")
        await screen.press(*"ollama/mine", "enter")
        assert opener.opened == [(None, "ollama/mine")]
        assert setup.written == '[agent]\nmodel = "ollama/mine"\n'


async def test_who_leaves_is_told_what_is_missing(tmp_path: Path) -> None:
    async with starting(tmp_path, {}, "", UsageError("no model is set; name one")) as (screen, _, setup):
        await screen.lists("first-run")
        await screen.press("escape", until=lambda: screen.app.jobs.opening_error is not None)
        assert setup.written == ""


@pytest.mark.parametrize(
    ("environment", "written"),
    [({"OPENAI_API_KEY": SECRET}, ""), ({"EBB_MODEL": "ollama/a"}, ""), ({}, "# mine\n")],
    ids=["a key", "a model", "a file"],
)
async def test_who_has_set_anything_is_not_asked(tmp_path: Path, environment: dict[str, str], written: str) -> None:
    async with starting(tmp_path, environment, written) as (screen, opener, _):
        await screen.rests()
        assert opener.opened == [(None, None)]


def test_variables_that_could_hold_a_key_are_found() -> None:
    environment: Mapping[str, str] = {
        "MY_OPENAI_KEY": SECRET,
        "CLAUDE_TOKEN": SECRET,
        "EMPTY_OPENAI_KEY": "",
        "MONKEY": "x",
        "PATH": "/bin",
    }
    assert detect_keys(environment) == (
        DetectedKey("CLAUDE_TOKEN", "anthropic"),
        DetectedKey("MY_OPENAI_KEY", "openai"),
    )
    assert SECRET not in repr(build_first_run_rows(detect_keys(environment), ()))


ANTHROPIC, OPENAI = "anthropic/claude-sonnet-5-5", "openai/gpt-6-sol"
HOW = "/model switches, /settings agent.model sets a default"


@pytest.mark.parametrize(
    ("keys", "model", "lines"),
    [
        (["ANTHROPIC_API_KEY"], ANTHROPIC, ("model chosen by ANTHROPIC_API_KEY", HOW)),
        (["OPENAI_API_KEY"], OPENAI, ("model chosen by OPENAI_API_KEY", HOW)),
        (
            ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"],
            ANTHROPIC,
            ("model chosen by ANTHROPIC_API_KEY (OPENAI_API_KEY is also set)", HOW),
        ),
        (["OPENAI_API_KEY"], "openai/other", ()),
        ([], "ollama/qwen3", ()),
    ],
)
def test_a_model_that_a_key_has_chosen_says_so(
    tmp_path: Path, keys: list[str], model: str, lines: tuple[str, ...]
) -> None:
    environment = dict.fromkeys(keys, SECRET)
    assert build_model_choice_notes(model, Setup(tmp_path / "a", environment=environment).settings) == lines
    named = Setup(tmp_path / "b", f'[agent]\nmodel = "{model}"\n', environment).settings
    assert build_model_choice_notes(model, named) == build_model_choice_notes(model, None) == ()


async def test_the_greeting_says_which_key_chose_the_model(tmp_path: Path) -> None:
    async with starting(tmp_path, {"OPENAI_API_KEY": SECRET}, "", FakeSession(model=OPENAI)) as (screen, _, _setup):
        await screen.shows("model chosen by OPENAI_API_KEY")
        assert SECRET not in screen.transcript.visible_text()


def test_who_lacks_the_key_of_a_model_is_told_of_the_one_that_there_is() -> None:
    with pytest.raises(AuthFailed) as failed:
        find_endpoint("openai", ProviderConfig(), {"ANTHROPIC_API_KEY": SECRET})
    assert str(failed.value) == (
        "there is no key for openai: type `/key openai` in a session, run `ebb key set openai`, "
        "or set the environment variable OPENAI_API_KEY; "
        f"ANTHROPIC_API_KEY is set: `-m {ANTHROPIC}` uses it"
    )


def test_a_server_on_this_machine_is_sought_where_it_is_said_to_be() -> None:
    addresses = {
        "": "http://127.0.0.1:11434",
        "127.0.0.1:1234": "http://127.0.0.1:1234",
        "http://localhost:80/": "http://localhost:80",
        "https://example.org": "http://127.0.0.1:11434",
        "ftp://x": "http://127.0.0.1:11434",
    }
    assert {host: find_ollama_url({"OLLAMA_HOST": host}) for host in addresses} == addresses


def test_the_first_run_is_one_without_any_choice(tmp_path: Path) -> None:
    setup = Setup(tmp_path, environment={})
    assert is_first_run(setup.load(), {})
    assert not is_first_run(setup.load(), {"ANTHROPIC_API_KEY": SECRET})


def _of_ollama(url: str) -> tuple[str, ...] | None:
    return next((server.models for server in detect_local_servers(url) if server.name == "Ollama"), None)


@pytest.mark.parametrize(
    ("body", "models"),
    [
        (json.dumps({"models": [{"name": "qwen3:8b"}, {"name": "a\x1b[2J"}, {"name": 7}, 3]}).encode(), ("qwen3:8b",)),
        (b'{"models": 7}', ()),
        (b"[]", None),
        (b"<html>", None),
    ],
)
async def test_a_server_on_this_machine_says_what_it_has(body: bytes, models: tuple[str, ...] | None) -> None:
    with web_server(lambda _: (200, body)) as url:
        assert await asyncio.to_thread(_of_ollama, url) == models
    assert _of_ollama(url) is None
    assert first_run.PROBE_TIMEOUT_S <= 1


async def test_servers_that_speak_as_openai_does_are_found_where_they_usually_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = json.dumps({"object": "list", "data": [{"id": "devstral"}, {"id": "a\x1b[2J"}, {}]}).encode()
    with web_server(lambda _: (200, body)) as here:
        servers = (("LM Studio", f"{here}/v1", ""), ("llama.cpp", "http://127.0.0.1:9/v1", ""))
        monkeypatch.setattr(first_run, "LOCAL_CHAT_SERVERS", servers)
        found = await asyncio.to_thread(detect_local_servers, "http://127.0.0.1:9")
        assert found == (LocalModelServer("LM Studio", f"{here}/v1", ("devstral",)),)


@SIZES
@pytest.mark.parametrize(
    ("keys", "models"),
    [((DetectedKey("WORK_OPENAI_KEY", "openai"),), (OLLAMA, STUDIO)), ((), ())],
    ids=["of somebody who has something", "of somebody who has nothing"],
)
def test_the_first_screen(
    picture: Picture, keys: tuple[DetectedKey, ...], models: tuple[LocalModelServer, ...]
) -> None:
    app = EbbApp(FakeSessions([FakeSession()]))
    screen = PanelScreen(build_first_run_panel(keys, models, take_key))
    assert picture(app, asks(app, PanelScreen), start=lambda: app.push_screen(screen))


@SIZES
def test_the_greeting_of_somebody_who_has_two_keys(picture: Picture, tmp_path: Path) -> None:
    setup = Setup(tmp_path, environment={"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET})
    app = EbbApp(FakeSessions([FakeSession(model=ANTHROPIC)]), settings=lambda: setup.settings)
    assert picture(app)
