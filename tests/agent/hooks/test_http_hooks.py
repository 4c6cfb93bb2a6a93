"""Hooks that are servers, in sessions: real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.kit.extension_project import HookProject
from tests.kit.session import bash, calls

DONE: dict[str, Any] = {"text": "done"}


@asynccontextmanager
async def server(answer: Callable[[str], bytes]) -> AsyncIterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Its address, and the head and what was said of each request. `answer`: all that it sends, by the path."""
    requests: list[tuple[str, dict[str, Any]]] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(next(line for line in head.lower().splitlines() if line.startswith("content-length:"))[15:])
        requests.append((head, json.loads(await reader.readexactly(length))))
        path = head.split()[1]
        if path != "/hangs":
            writer.write(answer(path))
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", requests
    finally:
        listening.close()
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def ok(body: object) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content


def http(url: str, **keys: object) -> dict[str, object]:
    return {"type": "http", "url": url, **keys}


def declare(project: HookProject, **events: list[dict[str, object]]) -> None:
    tables = {event: [{"hooks": hooks}] for event, hooks in events.items()}
    project.write(".claude/settings.json", json.dumps({"hooks": tables}), of_user=True)


async def test_a_server_is_told_what_programs_are_told_and_answers_as_they_do(
    project: HookProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_KEY", "k1")
    monkeypatch.setenv("OTHER_KEY", "k2")
    denies = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not on a Friday"}}
    async with server(lambda path: ok(denies if path == "/guard" else b"the build is green")) as (url, requests):
        headers = {"Authorization": "Bearer $HOOK_KEY${OTHER_KEY}"}
        declare(
            project,
            PreToolUse=[http(f"{url}/guard", headers=headers, allowedEnvVars=["HOOK_KEY"])],
            UserPromptSubmit=[http(f"{url}/news")],
        )
        project.script(calls(bash("deploy")), DONE)
        done = await project.run("ship it")
    assert [status for status, _ in done.outputs] == ["denied"]
    assert "a hook denied it: not on a Friday" in done.outputs[0][1]
    assert "[A hook of the user for `UserPromptSubmit` notes:]\nthe build is green" in done.said
    (_, prompt), (head, call) = requests
    assert (prompt["hook_event_name"], prompt["prompt"]) == ("UserPromptSubmit", "ship it")
    assert (call["hook_event_name"], call["tool_name"], call["tool_input"]) == (
        "PreToolUse", "Bash", {"command": "deploy"},
    )  # fmt: skip
    assert "authorization: Bearer k1\r\n" in head.replace("Authorization", "authorization")
    assert "content-type: application/json" in head.lower()


async def test_a_server_that_fails_hangs_floods_or_leads_elsewhere_costs_a_line(project: HookProject) -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    answers = {
        "/fails": b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
        "/moved": moved,
        "/floods": ok(b'{"x": "' + b"x" * 10_000_000),
        "/garbage": b"\0\1\2\r\n\r\n",
        "/empty": ok(b""),
    }
    async with server(answers.__getitem__) as (url, _):
        hooks = [http(f"{url}{path}") for path in answers]
        declare(project, PreToolUse=[*hooks, http(f"{url}/hangs", timeout=0.2), http("http://127.0.0.1:1/")])
        project.script(calls(bash("echo hi")), DONE)
        done = await project.run()
    assert done.outputs == [("done", "hi\nexit code 0")]
    problems = [line.replace(url, "U").removeprefix("the hook `posts to ") for line in done.told]
    assert problems[:3] == [
        "U/fails` for PreToolUse could not be run: it answered with 500; it was skipped",
        "U/moved` for PreToolUse could not be run: it answered with 302; it was skipped",
        "U/floods` for PreToolUse printed invalid JSON; it was skipped",
    ]
    assert problems[3].startswith("U/garbage` for PreToolUse could not be run: ")
    assert problems[4] == "U/hangs` for PreToolUse was ended after 0.2 s; it was skipped"
    assert problems[5].startswith("http://127.0.0.1:1/` for PreToolUse could not be run: ")
    assert len(problems) == 6
