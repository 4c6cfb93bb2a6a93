"""Server logins that lead elsewhere: which page is opened, which servers are contacted, and whose response is
accepted."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from bench.attacks.drive import KEYS, Answer, listening, make_home
from bench.attacks.rows import AttackFolders, AttackOutcome, Row, lay_out
from tests.running import ROOT, command, environment
from tests.tools.mcp.conftest import listening as served

_LOGIN_TIMEOUT_S = 60.0
_MCP = "http://public.test:8080/mcp"
_ISSUER = "http://public.test:8080"
Way: TypeAlias = Callable[[AttackFolders, Any], AttackOutcome]


def carry_out(row: Row, places: AttackFolders) -> AttackOutcome:
    make_home(places)
    lay_out(row["setup"], places)
    told = row["setup"]["server"]["oauth"]
    return _wrong_state(places) if isinstance(told, str) else _led_away(places, told)


def _led_away(places: AttackFolders, told: Mapping[str, str]) -> AttackOutcome:
    """The server's documents name another server, or an invalid address."""
    opened = places.folder / "opened"
    browser = places.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" >> {opened}\n')
    browser.chmod(0o755)
    with listening(_documents(told)) as hits:
        process = _login(places, _MCP, {"BROWSER": f"{browser} %s"})
        end = time.monotonic() + _LOGIN_TIMEOUT_S
        while process.poll() is None and not opened.exists() and time.monotonic() < end:
            time.sleep(0.05)  # this browser never returns
        is_over = process.poll() is not None
        process.kill()
        _, err = process.communicate()
    names = [value for value in told.values() if urlsplit(value).hostname]
    asked = [hit for hit in hits for name in names if hit.startswith(f"{urlsplit(name).hostname}:")]
    shown = opened.read_text() if opened.exists() else ""
    return AttackOutcome.of(
        "" if is_over or shown else "it neither ended nor asked for a login",
        f"it ended with {process.returncode}" if is_over and process.returncode not in (3, 4) else "",
        "a traceback" if "Traceback" in err else "",
        f"the browser was sent to {shown!r}" if shown and not shown.startswith(f"{_ISSUER}/authorize?") else "",
        f"asked: {asked[0][:80]!r}" if asked else "",
        "" if hits else "no server was contacted",
    )


def _documents(told: Mapping[str, str]) -> Answer:
    """The login documents of the server at `public.test`."""
    where = told.get("resource_metadata") or f"{_ISSUER}/.well-known/oauth-protected-resource"
    server = {
        "issuer": _ISSUER,
        "authorization_endpoint": f"{_ISSUER}/authorize",
        "token_endpoint": f"{_ISSUER}/token",
        "registration_endpoint": f"{_ISSUER}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        **{name: value for name, value in told.items() if name != "resource_metadata"},
    }
    resource = {"resource": _MCP, "authorization_servers": [_ISSUER]}
    client = {"client_id": "c", "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"}

    def answer(asked: bytes) -> bytes:
        path = asked.split(b" ")[1].decode("latin-1") if b" " in asked else ""
        if "oauth-protected-resource" in path:
            return _json(resource)
        if "well-known" in path:
            return _json(server)
        if path == "/register":
            return _json(client, "201 Created")
        said = f'WWW-Authenticate: Bearer resource_metadata="{where}"\r\n'
        return f"HTTP/1.1 401 Unauthorized\r\n{said}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()

    return answer


def _json(value: object, status: str = "200 OK") -> bytes:
    body = json.dumps(value)
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


def _login(places: AttackFolders, url: str, env: Mapping[str, str], *more: str) -> "subprocess.Popen[str]":
    config = places.ours / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[mcp.servers.x]\nurl = "{url}"\n')
    return subprocess.Popen(
        command("mcp", "login", "x", "-C", str(places.project), *more), text=True, stdin=subprocess.DEVNULL, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**environment(places.ours), **KEYS, **env},
    )  # fmt: skip


def _wrong_state(places: AttackFolders) -> AttackOutcome:
    """Someone else calls the login's redirect address, without a state and with a wrong one."""
    with served("authorising") as address:
        process = _login(places, address, {}, "--no-browser")
        assert process.stderr
        found = None
        while found is None and (line := process.stderr.readline()):
            found = re.search(r"open (http\S+)", line)
        if found is None:
            return AttackOutcome("happened", "no login began")
        back = parse_qs(urlsplit(found[1]).query)["redirect_uri"][0]
        statuses = [_status(f"{back}?{query}") for query in ("code=stolen", "code=stolen&state=wrong", "state=&code=1")]
        waits = process.poll() is None
        process.kill()
        process.communicate()
    kept = [
        path for path in places.ours.rglob("*") if path.is_file() and '"tokens"' in path.read_text("utf-8", "replace")
    ]
    return AttackOutcome.of(
        "" if statuses == [400, 400, 400] else f"they were answered with {statuses}",
        "" if waits else "the login ended by it",
        f"tokens in {kept}" if kept else "",
    )


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # our own loopback address
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
