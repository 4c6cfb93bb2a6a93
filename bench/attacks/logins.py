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

from bench.attacks.drive import KEYS, Answer, capture_requests, create_home
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, create_files
from tests.kit.commands import ROOT, command, environment
from tests.tools.integrations.mcp.conftest import listening as served

_LOGIN_TIMEOUT_S = 60.0
_MCP_URL = "http://public.test:8080/mcp"
_ISSUER_URL = "http://public.test:8080"
Way: TypeAlias = Callable[[AttackFolders, Any], AttackOutcome]


def carry_out(row: AttackRow, dirs: AttackFolders) -> AttackOutcome:
    create_home(dirs)
    create_files(row["setup"], dirs)
    oauth = row["setup"]["server"]["oauth"]
    return _run_with_wrong_state(dirs) if isinstance(oauth, str) else _run_with_foreign_metadata(dirs, oauth)


def _run_with_foreign_metadata(dirs: AttackFolders, metadata: Mapping[str, str]) -> AttackOutcome:
    """Log in to a server whose documents name another server or an invalid address."""
    opened = dirs.folder / "opened"
    browser = dirs.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" >> {opened}\n')
    browser.chmod(0o755)
    with capture_requests(_login_documents(metadata)) as hits:
        process = _login(dirs, _MCP_URL, {"BROWSER": f"{browser} %s"})
        end = time.monotonic() + _LOGIN_TIMEOUT_S
        while process.poll() is None and not opened.exists() and time.monotonic() < end:
            time.sleep(0.05)  # the fake browser never completes the login
        is_over = process.poll() is not None
        process.kill()
        _, err = process.communicate()
    names = [value for value in metadata.values() if urlsplit(value).hostname]
    asked = [hit for hit in hits for name in names if hit.startswith(f"{urlsplit(name).hostname}:")]
    address = opened.read_text() if opened.exists() else ""
    return AttackOutcome.from_problems(
        "" if is_over or address else "it neither ended nor asked for a login",
        f"it ended with {process.returncode}" if is_over and process.returncode not in (3, 4) else "",
        "a traceback" if "Traceback" in err else "",
        f"the browser was sent to {address!r}"
        if address and not address.startswith(f"{_ISSUER_URL}/authorize?")
        else "",
        f"asked: {asked[0][:80]!r}" if asked else "",
        "" if hits else "no server was contacted",
    )


def _login_documents(metadata: Mapping[str, str]) -> Answer:
    """Return a function that serves the login documents of the server at `public.test`."""
    where = metadata.get("resource_metadata") or f"{_ISSUER_URL}/.well-known/oauth-protected-resource"
    server = {
        "issuer": _ISSUER_URL,
        "authorization_endpoint": f"{_ISSUER_URL}/authorize",
        "token_endpoint": f"{_ISSUER_URL}/token",
        "registration_endpoint": f"{_ISSUER_URL}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        **{name: value for name, value in metadata.items() if name != "resource_metadata"},
    }
    resource = {"resource": _MCP_URL, "authorization_servers": [_ISSUER_URL]}
    client = {"client_id": "c", "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"}

    def answer(asked: bytes) -> bytes:
        path = asked.split(b" ")[1].decode("latin-1") if b" " in asked else ""
        if "oauth-protected-resource" in path:
            return _json_response(resource)
        if "well-known" in path:
            return _json_response(server)
        if path == "/register":
            return _json_response(client, "201 Created")
        challenge = f'WWW-Authenticate: Bearer resource_metadata="{where}"\r\n'
        return f"HTTP/1.1 401 Unauthorized\r\n{challenge}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()

    return answer


def _json_response(value: object, status: str = "200 OK") -> bytes:
    body = json.dumps(value)
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


def _login(dirs: AttackFolders, url: str, env: Mapping[str, str], *more: str) -> "subprocess.Popen[str]":
    config = dirs.program_home / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[mcp.servers.x]\nurl = "{url}"\n')
    return subprocess.Popen(
        command("mcp", "login", "x", "-C", str(dirs.project), *more), text=True, stdin=subprocess.DEVNULL, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**environment(dirs.program_home), **KEYS, **env},
    )  # fmt: skip


def _run_with_wrong_state(dirs: AttackFolders) -> AttackOutcome:
    """Call the login's redirect address without a state and with a wrong one, as an attacker would."""
    with served("authorising") as address:
        process = _login(dirs, address, {}, "--no-browser")
        assert process.stderr
        found = None
        while found is None and (line := process.stderr.readline()):
            found = re.search(r"open (http\S+)", line)
        if found is None:
            return AttackOutcome("happened", "no login began")
        back = parse_qs(urlsplit(found[1]).query)["redirect_uri"][0]
        statuses = [
            _response_status(f"{back}?{query}") for query in ("code=stolen", "code=stolen&state=wrong", "state=&code=1")
        ]
        waits = process.poll() is None
        process.kill()
        process.communicate()
    stored = [
        path
        for path in dirs.program_home.rglob("*")
        if path.is_file() and '"tokens"' in path.read_text("utf-8", "replace")
    ]
    return AttackOutcome.from_problems(
        "" if statuses == [400, 400, 400] else f"they were answered with {statuses}",
        "" if waits else "the login ended by it",
        f"tokens in {stored}" if stored else "",
    )


def _response_status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # the URL is our own loopback address
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
