"""What is killed without a warning: the server of a browser, and the session in one of its tabs."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from pathlib import Path

import pyte
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from tests.kit.commands import ROOT, ebb, environment
from tests.kit.polling import is_gone

PATIENCE = 60
COMMAND = "echo $PPID > session; echo $$ > pid; mv pid started; sleep 600; :"


class Tab:
    """What a browser shows, without a browser."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)

    async def until(self, words: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while words not in "\n".join(self._screen.display):
                message = await self.socket.receive()
                assert message.type in (WSMsgType.BINARY, WSMsgType.TEXT), f"closed without {words!r}"
                if message.type == WSMsgType.BINARY:
                    self._stream.feed(message.data)

    async def type(self, text: str) -> None:
        await self.socket.send_json(["stdin", text])


@asynccontextmanager
async def tab(origin: str, cookie: str, folder: str) -> AsyncIterator[Tab]:
    headers = {"Cookie": cookie, "Origin": origin}
    address = f"{origin}{folder}/ws?width=80&height=24"
    async with ClientSession() as client, client.ws_connect(address, headers=headers, max_msg_size=0) as socket:
        yield Tab(socket)


async def cookie_for(address: str) -> tuple[str, str]:
    """What a browser is given that opens the address first, and the folder that it is for."""
    async with ClientSession() as client, client.get(address, allow_redirects=False) as answer:
        cookie = next(iter(SimpleCookie(answer.headers["Set-Cookie"]).values()))
        return f"{cookie.key}={cookie.value}", cookie["path"]


@pytest.mark.parametrize("killed", ["the server", "the session"])
async def test_nothing_runs_on_and_the_session_goes_on_elsewhere(tmp_path: Path, killed: str) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    runs = {"text": "I wait.", "calls": [{"name": "bash", "arguments": {"command": COMMAND}}]}
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"reply": [runs]}))
    flags = ("-m", f"scripted/{script}", "-C", str(project), "--permission-mode", "auto")
    command = [sys.executable, "-m", "ebbtide.tui.cli.main", "serve", *flags]
    env = {**environment(home), "TERM": "dumb"}
    with subprocess.Popen(  # noqa: ASYNC220  # it only starts here
        command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", "".join(server.stdout.readline() for _ in range(2)))
            assert found is not None
            origin, cookie = found[0].split("/?")[0], await cookie_for(found[0])
            async with tab(origin, *cookie) as page:
                await page.until("keys and commands")
                await page.type("remember me\r")
                await page.until("I wait.")
                async with asyncio.timeout(PATIENCE):
                    while not (project / "started").exists():  # noqa: ASYNC110  # a file tells nobody
                        await asyncio.sleep(0.02)
                session = int((project / "session").read_text())
                os.kill(server.pid if killed == "the server" else session, signal.SIGKILL)
                assert await asyncio.to_thread(is_gone, session)
                assert await asyncio.to_thread(is_gone, int((project / "started").read_text()))
            if killed == "the session":
                async with tab(origin, *cookie) as another:
                    await another.until("keys and commands")
        finally:
            server.kill()
            server.wait()
    script.write_text(json.dumps({"reply": [{"text": "I see."}]}))
    again = ebb("-p", "what happened?", "-c", *flags, "--output-format", "json", home=home)
    assert (again.code, again.result["result"]) == (0, "I see.")
    printed = ebb("sessions", "show", str(again.result["session"]), home=home).out
    assert "remember me" in printed
    assert "interrupted" in printed
