"""`ebb key sign-in`: what a user sees, what is stored, and that tokens are never shown."""

import json
import os
import pty
import select
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import TypeAlias

import pytest

from ebbtide.agent.errors import AuthFailed, ConfigError, UsageError
from ebbtide.agent.integrations.sign_in.browser_flow import BrowserSignIn
from ebbtide.agent.integrations.sign_in.device_flow import DeviceFlow
from ebbtide.tui.cli import keys
from ebbtide.tui.integrations.sign_in import command as sign_in_command
from tests.kit.commands import ROOT, command, ebb, environment
from tests.kit.files import write_file
from tests.kit.sign_in_server import ACCESS, CLIENT_ID, REFRESH, USER_CODE, SignInServer, sign_in_server

RunKey: TypeAlias = Callable[..., tuple[str, str]]


@pytest.fixture
def server() -> Iterator[SignInServer]:
    with sign_in_server(code={"interval": 1}) as running:
        yield running


@pytest.fixture
def home(server: SignInServer, tmp_path: Path) -> Path:
    write_file(
        tmp_path / "config" / "config.toml",
        f"""
[providers.copilot]
client_id = "{CLIENT_ID}"
sign_in_url = "{server.url}"
base_url = "{server.url}/copilot"

[providers.chatgpt]
sign_in_url = "{server.url}"
base_url = "{server.url}/plan"
""",
    )
    return tmp_path


@pytest.fixture
def run_key(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunKey:
    """What the command prints, on stdout and stderr. Nobody types, and it waits for nothing."""
    monkeypatch.setenv("EBB_HOME", str(home))
    monkeypatch.setattr("sys.stdin", StringIO(""))
    monkeypatch.setattr(sign_in_command.SignInPrompt, "wait", lambda self, seconds: None)

    def run(*words: str) -> tuple[str, str]:
        assert keys.run(words) == 0
        printed = capsys.readouterr()
        assert ACCESS not in printed.out + printed.err
        assert REFRESH not in printed.out + printed.err
        return printed.out, printed.err

    return run


def test_copilot_from_sign_in_to_removal(server: SignInServer, home: Path, run_key: RunKey) -> None:
    out, err = run_key("sign-in", "copilot")
    assert err == (
        f"Open {server.url}/login/device and type the code {USER_CODE}\n"
        "Waiting for you … Ctrl-C cancels. Never give the code to anybody else.\n"
    )
    assert out == (
        f"signed in to GitHub Copilot as octocat; the tokens are sent only to {server.url}\n"
        "3 models, such as copilot/gpt-5.2; `ebb models copilot` lists them\n"
    )
    assert run_key() == (f"copilot      signed in as octocat {server.url}\n", "")
    assert json.loads(run_key("list", "--json")[0]) == {
        "keys": [{"provider": "copilot", "from": "signed in as octocat", "origin": server.url}]
    }
    assert ebb("-m", "copilot/gpt-5.2", "-p", "hello", home=home).out == "hi\n"
    assert [line["model"] for line in ebb("models", "--json", home=home).lines if line["usable"]] == [
        "copilot/gpt-5.2", "copilot/claude-sonnet-4.6", "copilot/gpt-4.1",
    ]  # fmt: skip
    doctor = ebb("doctor", home=home).out
    assert f"signed in to copilot as octocat, used only for {server.url}" in doctor
    assert ACCESS not in doctor
    assert run_key("remove", "copilot")[0] == (
        "removed the sign-in to GitHub Copilot; to end the access itself, remove Ebbtide in its settings\n"
    )
    assert run_key("remove", "copilot")[0] == "no key stored for copilot\n"
    assert ACCESS not in (home / "config" / "sign-ins.json").read_text()
    failed = ebb("-m", "copilot/gpt-5.2", "-p", "hello", home=home)
    assert (failed.code, failed.err) == (
        4,
        "ebb: you are not signed in to GitHub Copilot: run `ebb key sign-in copilot` in a shell, or set the "
        "environment variable COPILOT_GITHUB_TOKEN\n",
    )


def test_chatgpt_in_a_browser_on_this_machine(
    server: SignInServer, home: Path, run_key: RunKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    show_page = sign_in_command.SignInPrompt.show_page

    def browse(terminal: sign_in_command.SignInPrompt, attempt: BrowserSignIn) -> None:
        show_page(terminal, attempt)
        Thread(target=server.allow, args=(attempt.authorization_url,), daemon=True).start()

    monkeypatch.setattr(sign_in_command.SignInPrompt, "show_page", browse)
    out, err = run_key("sign-in", "chatgpt", "--json")
    assert json.loads(out) == {
        "provider": "chatgpt",
        "account": "me@example.org",
        "place": "file",
        "origin": server.url,
        "models": ["chatgpt/gpt-6-sol", "chatgpt/gpt-6-luna"],
    }
    assert err.startswith(f"Open this address and allow access:\n\n{server.url}/api/accounts/authorize?")
    assert ebb("-m", "chatgpt/gpt-6-sol", "-p", "hello", home=home).out == "hi\n"
    with pytest.raises(UsageError, match="ChatGPT has no keys; run `ebb key sign-in chatgpt`"):
        keys.run(("set", "chatgpt"))


def test_nothing_is_stored_after_a_failure(server: SignInServer, home: Path, run_key: RunKey) -> None:
    server.polls = [{"error": "access_denied"}]
    with pytest.raises(AuthFailed, match="you denied access"):
        run_key("sign-in", "copilot")
    write_file(home / "config" / "config.toml", "")
    with pytest.raises(ConfigError, match=r"set `providers\.copilot\.client_id`"):
        run_key("sign-in", "copilot")
    assert not (home / "config" / "sign-ins.json").exists()


def test_ctrl_c_stores_nothing(home: Path, run_key: RunKey, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DeviceFlow, "wait_for_tokens", interrupt)
    assert keys.run(("sign-in", "copilot")) == 130
    assert not (home / "config" / "sign-ins.json").exists()


def test_enter_opens_the_page_and_nothing_else_does(server: SignInServer, home: Path) -> None:
    server.polls = [{"error": "authorization_pending"} for _ in range(1000)]
    opened = home / "opened"
    browser = home / "browser"
    write_file(browser, f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        words = command("key", "sign-in", "copilot")
        os.execve(words[0], words, {**environment(home), "BROWSER": f"{browser} %s"})
    seen = read_until(terminal, b"anybody else")
    assert b"Enter opens it in a browser here." in seen
    assert not opened.exists()
    os.write(terminal, b"\n")
    end = time.monotonic() + 30
    while not opened.exists() or not opened.read_text():
        assert time.monotonic() < end
        select.select([terminal], [], [], 0.05)
    assert opened.read_text() == f"{server.url}/login/device\n"
    os.write(terminal, b"\x03")
    assert b"The sign-in was cancelled. Nothing was stored." in read_until(terminal, b"stored.")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(terminal)


def read_until(terminal: int, end: bytes) -> bytes:
    read = b""
    while end not in read:
        assert select.select([terminal], [], [], 30)[0], read
        read += os.read(terminal, 1000)
    return read
