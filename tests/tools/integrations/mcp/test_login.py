"""Logging in: a browser is sent somewhere and comes back, what that gave is kept and renewed, and nothing is asked
where the user did not want to log in."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest

from ebbtide.tools.base import Result, ToolError, no_progress
from ebbtide.tools.integrations.mcp import oauth
from ebbtide.tools.integrations.mcp.oauth import serve_callback
from ebbtide.tools.integrations.mcp.offers import LoginRequiredError
from ebbtide.tools.integrations.mcp.spec import LoginSettings, ServerSpec
from tests.kit.polling import until
from tests.tools.integrations.mcp.conftest import Starts, listening
from tests.tools.integrations.mcp.desks import RecordingDesk

ReadLogin: TypeAlias = Callable[[], dict[str, Any]]


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with listening("authorising") as address:
        yield address


@pytest.fixture
def read_login(tmp_path: Path) -> ReadLogin:
    """What is in the file of the login."""
    return lambda: json.loads((tmp_path / "credentials.json").read_text())


class Browser(RecordingDesk):
    """A user who opens the address at once, and is sent back by it."""

    page = ""

    async def open_login(self, server: str, url: str) -> None:
        await super().open_login(server, url)
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            self.page = (await client.get(url)).text


async def test_without_a_login_the_server_waits_for_one_and_nothing_is_asked(
    guarded: str, start: Starts, tmp_path: Path
) -> None:
    handlers, credentials = Browser(), tmp_path / "credentials.json"
    server = start(ServerSpec("guarded", url=guarded), handlers)
    assert (await server.wait_until_started()).phase == "needs_login"
    assert (handlers.asked, credentials.exists()) == ([], False)
    with pytest.raises(ToolError, match=r"the server `guarded` cannot be used \(needs_login\)"):
        await server.call("enter", {}, no_progress)


async def test_a_login_is_kept_in_a_file_of_its_owner_and_used_again(
    guarded: str, start: Starts, tmp_path: Path, read_login: ReadLogin
) -> None:
    handlers = Browser()
    server = await start.ready(ServerSpec("guarded", url=guarded), handlers)
    assert (await server.login()).phase == "ready"
    assert await server.call("enter", {}, no_progress) == Result("let in")
    assert "You are logged in" in handlers.page
    assert (tmp_path / "credentials.json").stat().st_mode & 0o777 == 0o600
    assert "code_challenge_method=S256" in str(handlers.asked[0])
    again = start(ServerSpec("guarded", url=guarded), handlers)
    assert (await again.wait_until_started()).phase == "ready"
    assert len(handlers.asked) == 1


async def test_a_token_that_has_run_out_is_renewed_without_the_user(
    guarded: str, start: Starts, tmp_path: Path, read_login: ReadLogin
) -> None:
    first = start(ServerSpec("guarded", url=guarded), Browser())
    await first.login()
    old = read_login()
    (tmp_path / "credentials.json").write_text(json.dumps({**old, "expires": 1}))
    handlers = Browser()
    second = start(ServerSpec("guarded", url=guarded), handlers)
    assert (await second.wait_until_started()).phase == "ready"
    assert await second.call("enter", {}, no_progress) == Result("let in")
    assert (handlers.asked, read_login()["tokens"] == old["tokens"], read_login()["expires"] > 1) == ([], False, True)


async def test_a_token_that_is_not_accepted_any_more_asks_for_a_login(
    guarded: str, start: Starts, tmp_path: Path, read_login: ReadLogin
) -> None:
    await start(ServerSpec("guarded", url=guarded), Browser()).login()
    forged = {**read_login(), "tokens": {"access_token": "forged"}}
    (tmp_path / "credentials.json").write_text(json.dumps(forged))
    handlers = Browser()
    server = start(ServerSpec("guarded", url=guarded), handlers)
    assert ((await server.wait_until_started()).phase, handlers.asked) == ("needs_login", [])
    assert (await server.login()).phase == "ready"


async def test_what_was_kept_for_one_address_is_not_shown_to_another(
    guarded: str, start: Starts, tmp_path: Path, read_login: ReadLogin
) -> None:
    await start(ServerSpec("guarded", url=guarded), Browser()).login()
    (tmp_path / "credentials.json").write_text(json.dumps({**read_login(), "url": "http://127.0.0.1:1/mcp"}))
    assert (await start(ServerSpec("guarded", url=guarded)).wait_until_started()).phase == "needs_login"


async def test_configured_scopes_and_those_wanted_before_are_asked_for_besides_the_servers(
    guarded: str, start: Starts, tmp_path: Path
) -> None:
    (tmp_path / "credentials.json").write_text(json.dumps({"url": guarded, "scope": "read"}))
    handlers = Browser()
    state = await start(ServerSpec("guarded", url=guarded, login=LoginSettings(scopes=("extra",))), handlers).login()
    assert (state.phase, "&scope=extra+read" in str(handlers.asked[0])) == ("ready", True)


async def test_a_login_that_nobody_finishes_is_given_up(guarded: str, start: Starts) -> None:
    server = start(ServerSpec("guarded", url=guarded, login=LoginSettings(timeout=0.2)))
    state = await server.login()
    assert (state.phase, state.detail) == ("needs_login", "the login was not finished within 0.2 seconds")


async def test_a_login_that_is_cancelled_leaves_the_server_as_it_was(guarded: str, start: Starts) -> None:
    handlers = RecordingDesk()
    server = await start.ready(ServerSpec("guarded", url=guarded), handlers)
    login = asyncio.create_task(server.login())
    await until(lambda: bool(handlers.asked))
    login.cancel()
    await asyncio.gather(login, return_exceptions=True)
    assert (await server.wait_until_started()).phase == "needs_login"


async def test_a_login_that_is_refused_is_named(start: Starts) -> None:
    with listening("authorising", "denies") as address:
        server = start(ServerSpec("guarded", url=address), Browser())
        state = await server.login()
    assert (state.phase, state.detail) == ("needs_login", "the login was refused: not today")


@pytest.mark.parametrize("name", ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://[::ffff:a9fe:a9fe]/"])
async def test_a_login_asks_no_place_where_clouds_keep_their_keys(start: Starts, name: str) -> None:
    with listening("misleading", name) as address:
        state = await start(ServerSpec("misleading", url=address), Browser()).login()
    problem = "the server wants the login to contact another host, and `"
    assert (state.phase, state.detail.startswith(problem), "private network" in state.detail) == (
        "needs_login",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("server", "other", "is_refused"),
    [
        (["93.184.216.34"], ["10.0.0.1"], True),
        (["93.184.216.34", "10.0.0.2"], ["10.0.0.1"], True),
        (["10.0.0.2"], ["10.0.0.1"], False),
        (["10.0.0.2"], ["93.184.216.34", "169.254.169.254"], True),
    ],
)
async def test_a_login_asks_private_places_for_servers_only_that_are_nowhere_public(
    monkeypatch: pytest.MonkeyPatch, server: list[str], other: list[str], is_refused: bool
) -> None:
    known = {"server.test": server, "other.test": other}

    async def addresses_of(host: str, port: int) -> list[IPv4Address]:
        return [IPv4Address(each) for each in known[host]]

    monkeypatch.setattr(oauth, "resolve_addresses", addresses_of)
    asked = oauth._check_address(httpx2.URL("http://other.test/"), httpx2.URL("http://server.test/"))
    with pytest.raises(LoginRequiredError) if is_refused else nullcontext():
        await asked


async def test_a_login_asks_the_address_that_was_judged_whatever_its_name_stands_for_later(
    start: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = list[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async def addresses_of(host: str, port: int) -> list[IPv4Address]:
        return [IPv4Address("127.0.0.1")]  # no name server knows it, so that the connection could look up nothing

    monkeypatch.setattr(oauth, "resolve_addresses", addresses_of)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as other:
        place = f"other.test:{other.sockets[0].getsockname()[1]}"
        with listening("misleading", f"http://{place}/told") as address:
            await start(ServerSpec("misleading", url=address), Browser()).login()
    assert heads[0].startswith("GET /told HTTP/1.1\r\n")
    assert f"\r\nhost: {place}\r\n" in heads[0].lower()


async def test_a_key_of_the_user_is_no_login(guarded: str, start: Starts) -> None:
    spec = ServerSpec("guarded", url=guarded)
    state = await start(replace(spec, headers={"Authorization": "Bearer wrong"})).wait_until_started()
    assert (state.phase, state.detail) == ("failed", "the server answers with HTTP 401 Unauthorized")


async def test_only_the_answer_to_the_login_that_goes_on_is_taken_and_each_has_its_own() -> None:
    async with serve_callback(0) as back, httpx2.AsyncClient() as client:
        back.expect("https://example.com/authorize?state=right")
        wrong = [
            await client.get(f"http://127.0.0.1:{back.port}/{path}")
            for path in ("", "callback", "callback?code=1&state=wrong")
        ]
        right = await client.get(f"{back.url}?code=2&state=right")
        assert [each.status_code for each in (*wrong, right)] == [404, 400, 400, 200]
        assert await back.wait_for_redirect() == {"code": "2", "state": "right"}
        back.expect("https://example.com/authorize?state=more")
        await client.get(f"{back.url}?code=3&state=more")
        assert await back.wait_for_redirect() == {"code": "3", "state": "more"}
