"""Rows that script a scenario: the server's messages, the model's calls, and texts that must or must not appear in
requests, on the terminal, in logs and in the folder; also requests to `ebb serve`."""

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

from bench.attacks.drive import KEYS, Answer, AttackRun, create_home, play
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, create_files
from bench.attacks.shell import SANDBOX_OFF
from tests.kit.commands import ROOT, Run, command, ebb, environment
from tests.kit.fake_provider import Call, Turn

_SERVER = str(Path(__file__).with_name("mcp_server.py"))
_DEFAULT_TIME_LIMIT_S = 60.0
_DEFAULT_EXIT_CODES = (0, 5)
"""Exit codes of a successful run, and of one with a denied call."""


def carry_out(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Carry out a scripted row. `setup` may contain `servers` (messages by server name, see `mcp_server.py`), `owner`
    (`user` or `project`), `config` (the user's), `calls`, `answer`, `flags`, `env`, `prompt`, `stdin`, `http`
    (responses of all other servers) and `again` (later commands). `expected` may contain `in` and `not in` (texts by
    place), `uncalled` (prefixes of requests to others), `exit` (codes) and `seconds`."""
    setup, expected = row["setup"], row["expected"]
    create_home(dirs)
    create_files(setup, dirs)
    _write_configuration(setup, dirs)
    turns = [Turn(calls=(Call(name, _with_real_paths(given, dirs)),)) for name, given in setup.get("calls", ())]
    env = {**SANDBOX_OFF, "EBB_MCP_TIMEOUT": "5", **setup.get("env", {})}
    began = time.monotonic()
    played = play(
        dirs, [*turns, Turn(text=setup.get("answer", "done"))], *setup.get("flags", ()), env=env,
        prompt=setup.get("prompt", "go"), stdin=setup.get("stdin"), answer=_response_function(setup.get("http", ())),
    )  # fmt: skip
    again = [
        ebb(
            "-C",
            str(dirs.project),
            *map(dirs.with_real_paths, words),
            home=dirs.program_home,
            env={**env, "HOME": str(dirs.home)},
        )
        for words in setup.get("again", ())
    ]
    took, limit = time.monotonic() - began, expected.get("seconds", _DEFAULT_TIME_LIMIT_S)
    marks = [str(path) for path in (dirs.project / "PWNED", Path("/tmp/PWNED")) if path.exists()]
    return AttackOutcome.from_problems(
        played.outside_effects(may_call=True),
        f"{took:.0f} s" if took > limit else "",
        f"exit code {played.run.code}" if played.run.code not in expected.get("exit", _DEFAULT_EXIT_CODES) else "",
        f"made: {marks}" if marks else "",
        f"refused: {played.rejection_reasons}" if played.rejection_reasons else "",
        "a traceback" if any("Traceback (most" in run.err for run in again) else "",
        *(
            f"{place} was called"
            for place in expected.get("uncalled", ())
            for one in played.received_requests
            if one.startswith(place)
        ),
        *_placement_problems(expected, _observed_texts(played, again, dirs)),
    )


def _response_function(rows: Sequence[Mapping[str, str]]) -> Answer | None:
    """Return a function that answers requests from `rows`. `asked`: a prefix of the request; `raw`: the response, in
    which `$id` is replaced by the request's id."""

    def answer(asked: bytes) -> bytes:
        found = re.search(rb'"id": ?("[^"]*"|\d+)', asked)
        for row in rows:
            if asked.startswith(row["asked"].encode()) and row.get("holds", "").encode() in asked:
                return row["raw"].replace("$id", found[1].decode() if found else "null").encode("latin-1")
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    return answer if rows else None


def _with_real_paths(given: Mapping[str, object], dirs: AttackFolders) -> dict[str, object]:
    return {name: dirs.with_real_paths(value) if isinstance(value, str) else value for name, value in given.items()}


def _write_configuration(setup: Mapping[str, Any], dirs: AttackFolders) -> None:
    """Write the configuration of the row's servers and its user's settings."""
    servers = {
        name: {"command": sys.executable, "args": ["-I", "-S", _SERVER, json.dumps(spec)]}
        for name, spec in setup.get("servers", {}).items()
    }
    lines = [dirs.with_real_paths(setup.get("config", ""))]
    if setup.get("owner", "user") == "user":
        for name, server in servers.items():
            lines += [f"[mcp.servers.{json.dumps(name)}]", *(f"{key} = {json.dumps(it)}" for key, it in server.items())]
    elif servers:
        (dirs.project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    config = dirs.program_home / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("\n".join(lines))


def _observed_texts(played: AttackRun, again: Sequence[Run], dirs: AttackFolders) -> Mapping[str, str]:
    """Return the observed texts, by place."""
    logs, files = (
        "\n".join(path.read_text("utf-8", "replace") for path in sorted(folder.rglob("*")) if path.is_file())
        for folder in (dirs.program_home / "logs", dirs.project)
    )
    requests = [json.dumps(one, ensure_ascii=False) for one in map(json.loads, played.bodies)]
    return {
        "requests": "\n".join(requests),
        "tools": json.dumps(json.loads(played.bodies[-1]).get("tools", []), ensure_ascii=False) if requests else "",
        "outputs": "\n".join(played.outputs),
        "terminal": f"{played.run.out}\n{played.run.err}",
        "errors": played.run.err,
        "afterwards": "\n".join(f"{run.out}\n{run.err}" for run in again),
        "logs": logs,
        "files": files,
    }


def _placement_problems(expected: Mapping[str, Any], texts: Mapping[str, str]) -> Iterator[str]:
    """Yield problems with the texts that must (`in`) or must not (`not in`) appear in a place."""
    for place, words in expected.get("not in", {}).items():
        yield from (f"{word!r} appears in the {place}" for word in words if word in texts[place])
    for place, words in expected.get("in", {}).items():
        yield from (f"{word!r} is missing in the {place}" for word in words if word not in texts[place])


def run_serve_row(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Send the requests in `setup` to `ebb serve` in order, each with the expected status. `$token`, `$folder` and
    `$port` are those of the run; `"cookie": true` sends the cookie that was received."""
    create_home(dirs)
    create_files({}, dirs)
    env = {**environment(dirs.program_home), **KEYS, **SANDBOX_OFF, "TERM": "dumb"}
    line = command("serve", "-C", str(dirs.project))
    with Popen(line, env=env, cwd=ROOT, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, text=True) as server:
        try:
            assert server.stdout
            address = re.search(r":(\d+)/\?token=(\S+)", "".join(server.stdout.readline() for _ in range(2)))
            if address is None:
                return AttackOutcome("happened", "it printed no address")
            known = {"$port": address[1], "$token": address[2], "$folder": "/none"}
            return AttackOutcome.from_problems(*_request_problems(row["setup"]["requests"], known))
        finally:
            server.terminate()
            server.wait(20)


def _request_problems(requests: Sequence[Mapping[str, Any]], known: dict[str, str]) -> Iterator[str]:
    cookie = ""
    for asked in requests:
        path, headers = (
            _fill_placeholders(asked["path"], known),
            {"Host": "127.0.0.1:$port", **asked.get("headers", {})},
        )
        sent = {name: _fill_placeholders(value, known) for name, value in headers.items()}
        if asked.get("cookie"):
            sent["Cookie"] = cookie
        connection = HTTPConnection("127.0.0.1", int(known["$port"]), timeout=20)
        connection.request(asked.get("method", "GET"), path, headers=sent)
        answer = connection.getresponse()
        given = answer.getheader("Set-Cookie", "")
        if given:
            cookie, known["$folder"] = given.partition(";")[0], answer.getheader("Location", "").rstrip("/")
        connection.close()
        if answer.status != asked["status"]:
            yield f"{asked['path']} was answered with {answer.status}"


def _fill_placeholders(text: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(name, value)
    return text
