"""`ebb serve` as a process: who reaches it, and what a browser shows."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pyte
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, CookieJar, DummyCookieJar, WSServerHandshakeError
from yarl import URL

from tests.kit.commands import ROOT, ebb, environment

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60
FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
"""Two columns wide; the page, and the terminal of these tests, take it for three people."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where a server tells that it is. It ends with the test, and all that it started with it."""
    project, script = tmp_path / "project", tmp_path / "script.json"
    project.mkdir()
    script.write_text(json.dumps({"reply": [{"text": f"{FAMILY} is wide.\n\nAn answer in a browser."}]}))
    command = [sys.executable, "-m", "ebbtide.tui.cli.main", "serve", "-m", f"scripted/{script}", "-C", str(project)]
    env = {**environment(tmp_path / "home"), "TERM": "dumb"}
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            lines = [server.stdout.readline() for _ in range(2)]
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", lines[1])
            assert found is not None, lines
            yield found[0]
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(PATIENCE) == 0
    assert not sessions_of(project), "a session was left behind"


def sessions_of(project: Path) -> list[int]:
    """Processes that work in the project."""
    found = subprocess.run(
        ["pgrep", "-f", f"from ebbtide.tui.cli.main import main.*{project}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(line) for line in found.stdout.split()]


async def test_nothing_is_shown_without_the_token(address: str) -> None:
    origin, token = address.split("/?token=")
    async with ClientSession(cookie_jar=DummyCookieJar()) as client:
        for path in ("/", "/?token=", f"/?token={token}x", f"/static/js/textual.js?token={token}", "/download/x"):
            async with client.get(origin + path, allow_redirects=False) as answer:
                assert answer.status == 403
        async with client.get(address, headers={"Host": "evil.example"}, allow_redirects=False) as answer:
            assert answer.status == 403
        async with client.get(address, headers={"Origin": "http://evil.example"}, allow_redirects=False) as answer:
            assert answer.status == 403
        async with client.get(address, allow_redirects=False) as answer:
            folder = answer.headers["Location"].rstrip("/")
            assert (answer.status, re.fullmatch(r"/[\w-]{16}", folder) is not None) == (303, True)
            cookie = next(iter(SimpleCookie(answer.headers["Set-Cookie"]).values()))
            assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", folder)
            assert (cookie["max-age"], token in cookie.value) == ("43200", False)
        async with client.get(address, allow_redirects=False) as answer:
            assert (answer.status, "Set-Cookie" in answer.headers) == (403, False), "the address lets in once"
    headers = {"Cookie": f"{cookie.key}={cookie.value}"}
    async with ClientSession(headers=headers) as client:
        async with client.get(f"{origin}{folder}/") as answer:
            page = await answer.text()
            assert (answer.status, "Access-Control-Allow-Origin" in answer.headers) == (200, False)
        assert set(re.findall(r"(?:http|ws)s?://[^/\"]+", page)) == {origin, origin.replace("http", "ws")}
        for foreign in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
            with pytest.raises(WSServerHandshakeError) as refused:
                await client.ws_connect(f"{origin}{folder}/ws", headers=foreign)
            assert refused.value.status == 403
        with pytest.raises(WSServerHandshakeError):
            await client.ws_connect(f"{origin}{folder}/ws", headers={"Origin": origin, "Host": "evil.example"})


async def test_no_other_server_on_this_machine_is_sent_the_cookie(address: str) -> None:
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
        async with browser.get(address) as answer:
            assert answer.status == 200
        elsewhere = URL("http://127.0.0.1:3000/")
        assert len(browser.cookie_jar.filter_cookies(answer.url)) == 1
        assert not browser.cookie_jar.filter_cookies(elsewhere)


def test_enter_in_the_terminal_prints_an_address_for_another_browser(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ebbtide.tui.cli.main", "serve", "-C", str(tmp_path)]
    ours, theirs = os.openpty()
    env = {**environment(tmp_path / "home"), "TERM": "dumb"}
    begin = f"import os, fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv({command[0]!r}, {command!r})"
    with (
        subprocess.Popen(
            [sys.executable, "-c", begin],
            env=env,
            cwd=ROOT,
            stdin=theirs,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as server,
        os.fdopen(ours, "wb", buffering=0) as terminal,
    ):
        try:
            os.close(theirs)
            assert server.stdout is not None
            first = [server.stdout.readline() for _ in range(2)][1]
            terminal.write(b"\n")
            heading, second = (server.stdout.readline() for _ in range(2))
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(PATIENCE) == 0
    assert (heading, second.partition("?")[0]) == ("For another browser (works once):\n", first.partition("?")[0])
    assert second != first


async def test_what_is_no_message_of_the_page_ends_the_session(address: str) -> None:
    origin = address.split("/?")[0]
    async with ClientSession() as client:
        async with client.get(address, allow_redirects=False) as answer:
            cookie, folder = next(iter(SimpleCookie(answer.headers["Set-Cookie"]).values())), answer.headers["Location"]
        headers = {"Cookie": f"{cookie.key}={cookie.value}", "Origin": origin}
        for junk in ("not json", "{}", '["resize", 3]', '["stdin", null]'):
            socket = await client.ws_connect(f"{origin}{folder}ws?width=x&height=-1", headers=headers)
            await socket.send_str(junk)
            async with asyncio.timeout(PATIENCE):
                async for _ in socket:
                    pass
            assert socket.closed


async def test_a_connection_that_comes_back_finds_the_session_and_its_question(address: str) -> None:
    origin, tab = address.split("/?")[0], "0123456789abcdef" * 2
    async with ClientSession() as client:
        async with client.get(address, allow_redirects=False) as answer:
            cookie, folder = next(iter(SimpleCookie(answer.headers["Set-Cookie"]).values())), answer.headers["Location"]
        headers = {"Cookie": f"{cookie.key}={cookie.value}", "Origin": origin}

        async def connected(words: str, *typed: str) -> str:
            """What an empty terminal shows that connects, once it shows the words; then the connection is lost."""
            screen = pyte.Screen(100, 30)
            stream = pyte.ByteStream(screen)
            socket = await client.ws_connect(f"{origin}{folder}ws/{tab}?width=100&height=30", headers=headers)
            for text in typed:
                await socket.send_json(["stdin", text])
            async with asyncio.timeout(PATIENCE):
                async for message in socket:
                    stream.feed(message.data)
                    if words in "\n".join(screen.display):
                        break
            connection = socket._response.connection
            assert connection is not None
            assert connection.transport is not None
            connection.transport.abort()
            return "\n".join(screen.display)

        await connected("Ask, or / for commands")
        await connected("An answer in a browser.", "hello again", "\r")
        shown = await connected("An answer in a browser.")
        assert "hello again" in shown
        assert "▏ \N{MAN} is wide." in shown, "what follows what is joined stands where it belongs"


def test_a_port_that_is_taken_is_told(address: str, tmp_path: Path) -> None:
    port = address.split(":")[2].split("/")[0]
    run = ebb("serve", "--port", port, home=tmp_path / "other")
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith(f"ebb: cannot serve on port {port}: ")


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    missing = (
        "import sys; sys.modules['aiohttp'] = None; from ebbtide.tui.cli.main import main; sys.exit(main(['serve']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", missing],
        env=environment(tmp_path),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "-m pip install 'textual-serve<2,>=1.1.3'\n" in done.stderr


class Page:
    """A page of a browser, by its DevTools protocol."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._screen = pyte.Screen(200, 80)
        self._stream = pyte.ByteStream(self._screen)
        self.asked: list[str] = []
        """Addresses that the page has asked for."""

    async def call(self, method: str, **parameters: object) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async for message in self._socket:
            event = message.json()
            match event.get("method"):
                case "Network.requestWillBeSent":
                    self.asked.append(event["params"]["request"]["url"])
                case "Network.webSocketFrameReceived" if event["params"]["response"]["opcode"] == 2:
                    payload = b64decode(event["params"]["response"]["payloadData"])
                    self._stream.feed(payload.replace(b"\n", b"\r\n"))  # as the page does
            if event.get("id") == self._number:
                assert "error" not in event, event
                return event["result"]
        raise AssertionError("the browser has ended")

    async def value(self, script: str) -> Any:
        return (await self.call("Runtime.evaluate", expression=script))["result"].get("value")

    async def text(self) -> str:
        """What the page has been given to show."""
        await self.value("0")
        return "\n".join(self._screen.display)

    async def until(self, holds: Callable[[str], bool]) -> str:
        async with asyncio.timeout(PATIENCE):
            while not holds(text := await self.text()):  # noqa: ASYNC110  # a page tells nobody that it has changed
                await asyncio.sleep(0.1)
        return text

    def clear(self) -> None:
        """What comes next is shown by an empty terminal, as a page that is loaded begins."""
        self._screen.reset()

    async def type(self, text: str) -> None:
        await self.value("document.querySelector('.xterm-helper-textarea').focus()")
        for character in text:
            await self.press(character, ord(character.upper()), character)
        await self.press("Enter", 13, "\r")

    async def press(self, key: str, code: int, text: str) -> None:
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, text=text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    assert CHROMIUM is not None
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"]
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *flags, f"--user-data-dir={folder}", "--window-size=1000,700", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while not (found := re.search(rb"127\.0\.0\.1:(\d+)/", line := await process.stderr.readline())):
                assert line, "the browser did not start"
        async with ClientSession() as client, client.get(f"http://127.0.0.1:{found[1].decode()}/json") as answer:
            page = next(each for each in await answer.json() if each["type"] == "page")
        async with ClientSession() as client, client.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            yield Page(socket)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
async def test_a_browser_shows_the_terminal_and_talks_to_it(address: str, tmp_path: Path) -> None:
    async with browser(tmp_path / "browser") as page:
        await page.call("Network.enable")
        await page.call("Page.enable")
        await page.call("Page.navigate", url=address)
        await page.until(lambda text: "Ask, or / for commands" in text)
        await page.type("hello from a browser")
        shown = await page.until(lambda text: "An answer in a browser." in text)
        assert "hello from a browser" in shown
        location = await page.value("window.location.href")
        assert re.fullmatch(re.escape(address.split("?")[0]) + r"[\w-]{16}/", location)
        assert await page.value("document.body.classList.contains('-first-byte')")
        assert await page.value("document.querySelector('.xterm-screen').clientHeight") > 300
        page.clear()
        await page.call("Page.reload")
        shown = await page.until(lambda text: "An answer in a browser." in text)
        assert "hello from a browser" in shown, "a reload shows the session that the tab had"
        await page.press("x", ord("X"), "x")
        await page.until(lambda text: "x" in text.splitlines()[-4:][1] or " x" in text)
        assert await page.value("document.activeElement.className") == "xterm-helper-textarea"
        origin = address.split("/?")[0]
        assert [url for url in page.asked if not url.startswith((origin, origin.replace("http", "ws"), "data:"))] == []


@pytest.mark.parametrize(("width", "height", "scale"), [(390, 844, 2), (1280, 800, 2), (1280, 800, 1)])
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
async def test_a_page_is_drawn_at_its_scale_with_the_prompt_in_it(
    address: str, tmp_path: Path, width: int, height: int, scale: int
) -> None:
    async with browser(tmp_path / "browser") as page:
        await page.call("Network.enable")
        await page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 500,
        )
        await page.call("Page.navigate", url=address)
        await page.until(lambda text: "Ask, or / for commands" in text)
        frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        await page.call("Runtime.evaluate", expression=frames, awaitPromise=True)
        sizes = "Array.from(document.querySelectorAll('.xterm-screen canvas'), (each) => [each.width, each.height])"
        drawn = json.loads(await page.value(f"JSON.stringify({sizes})"))
        across, down = json.loads(
            await page.value(
                "JSON.stringify((({ width, height }) => [width, height])"
                "(document.querySelector('.xterm-screen').getBoundingClientRect()))"
            )
        )
        scales = [(round(wide / across, 1), round(high / down, 1)) for wide, high in drawn]
        assert scales == [(scale, scale)] * 4, "as many pixels as the screen has"
        assert width - across < 20
        assert height - down < 40
