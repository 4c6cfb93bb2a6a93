"""`ebb key`: what it keeps, says, and never shows."""

import json
import os
import pty
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TypeAlias

import pytest

from ebbtide.agent.errors import UsageError
from ebbtide.tui.cli import keys
from tests.kit.commands import ROOT, command, ebb, environment

RunKey: TypeAlias = Callable[..., str]

KEY = "sk-proj-abc123456789012345"


@pytest.fixture
def run_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunKey:
    """What the command prints that is given these words, and this on its input."""
    monkeypatch.setenv("EBB_HOME", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    def run(*words: str, given: str = "") -> str:
        monkeypatch.setattr("sys.stdin", StringIO(given))
        assert keys.run(words) == 0
        printed = capsys.readouterr()
        assert KEY not in printed.out + printed.err
        return printed.out

    return run


def test_a_key_is_read_from_a_pipe_and_never_shown(tmp_path: Path, run_key: RunKey) -> None:
    place = tmp_path / "config" / "keys.json"
    assert run_key("set", "openai", given=f"{KEY}\n") == (
        f"stored the key for openai in `{place}`, readable only by you; it is sent only to https://api.openai.com\n"
    )
    assert run_key() == ("anthropic    ANTHROPIC_API_KEY\nopenai       file                 https://api.openai.com\n")
    assert json.loads(run_key("list", "--json")) == {
        "keys": [
            {"provider": "anthropic", "from": "ANTHROPIC_API_KEY", "origin": ""},
            {"provider": "openai", "from": "file", "origin": "https://api.openai.com"},
        ]
    }
    doctor = ebb("doctor", home=tmp_path).out
    assert f"key for openai from `{place}`, used only for https://api.openai.com" in doctor
    assert KEY not in doctor
    assert run_key("remove", "openai") == "removed the key for openai\n"
    assert run_key("remove", "openai") == "no key stored for openai\n"
    assert KEY not in place.read_text()


@pytest.mark.parametrize("given", ["", " \n", "two words", "ünicode", "a\nb", "x" * 9000])
def test_what_is_no_key_is_refused_in_a_sentence(tmp_path: Path, run_key: RunKey, given: str) -> None:
    with pytest.raises(UsageError, match="key"):
        run_key("set", "anthropic", given=given)
    assert not (tmp_path / "config" / "keys.json").exists()


def test_a_key_is_not_shown_as_it_is_typed(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        words = command("key", "set", "anthropic")
        os.execve(words[0], words, environment(tmp_path))
    read = b""
    while b"hidden" not in read:
        read += os.read(terminal, 1000)
    os.write(terminal, f"{KEY}\n".encode())
    try:
        while data := os.read(terminal, 1000):
            read += data
    except OSError:  # Linux says so when nobody holds the other end any more
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (b"stored the key" in read, KEY.encode() in read) == (True, False)
    assert json.loads((tmp_path / "config" / "keys.json").read_text())["keys"]["anthropic"]["key"] == KEY


def test_a_key_on_the_command_line_is_refused_and_not_shown(tmp_path: Path) -> None:
    run = ebb("key", "set", "openai", KEY, home=tmp_path)
    assert (run.code, KEY in run.err, "unrecognized arguments: ***" in run.err) == (2, False, True)
