"""A fault of the program itself, in real processes: one sentence, a report without secrets, and the way on."""

import json
import stat
import sys
from pathlib import Path

import pexpect
import pytest

from tests.kit.commands import ROOT, command, ebb, environment
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.files import write_files

KEY = "sk-planted-0123456789abcdef"
HEADER = "planted-header-9876543210"
PASSWORD = "planted-password-4711"

FAULT = """
import importlib.util
import sys


async def run_turn(said, conversation, env):
    key = "sk-planted-0123456789abcdef"
    raise KeyError(f"no row for {key}")


class Broken:
    def find_spec(self, name, path=None, target=None):
        if name != "ebbtide.agent.turn":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            module.run_turn = run_turn
        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Broken())
"""
"""For `sitecustomize`, which Python loads first: the module of turns has a fault."""


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    """The environment of a program whose turns fail in a way that nobody expects."""
    write_files(tmp_path, {"site/sitecustomize.py": FAULT, "script.json": '{"reply": [{"text": "hi"}]}'})
    return {"PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}", "OPENAI_API_KEY": KEY}


def report_in(home: Path) -> str:
    (path,) = (home / "logs").glob("crash-*.txt")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "KeyError: 'no row for ***'" in text
    assert KEY not in text
    return str(path)


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_run_without_a_terminal_tells_of_it_and_has_its_result(
    tmp_path: Path, broken: dict[str, str], form: str
) -> None:
    home = tmp_path / "home"
    arguments = ("-p", "go", "-m", f"scripted/{tmp_path / 'script.json'}", "--output-format", form, "--debug")
    done = ebb(*arguments, home=home, env=broken)
    path = report_in(home)
    message = (
        f"Ebbtide stopped because of an internal bug (KeyError: 'no row for ***'). A report (without your keys) is in "
        f"`{path}`. The conversation is not lost: `ebb -c` resumes the session."
    )
    assert (done.code, KEY in done.out + done.err, "Traceback" in done.out) == (1, False, False)
    if form == "text":
        assert (done.out, done.err) == ("", f"ebb: {message}\n")
    else:
        assert done.result["error"] == {"code": "crash", "message": message}
        assert (done.result["stop_reason"], done.result["session"] is not None) == ("failed", True)


@pytest.mark.parametrize("plain", [True, False])
def test_the_terminal_is_given_back_with_a_sentence(tmp_path: Path, broken: dict[str, str], plain: bool) -> None:
    home = tmp_path / "home"
    arguments = ["-m", f"scripted/{tmp_path / 'script.json'}", *(["--plain"] if plain else []), "go"]
    env = environment(home, {**broken, "TERM": "xterm-256color"})
    python, *rest = command(*arguments)
    child = pexpect.spawn(python, rest, env=env, timeout=60, encoding="utf-8", dimensions=(40, 200))
    child.expect(pexpect.EOF)
    child.close()
    report_in(home)
    printed = child.before or ""
    assert child.exitstatus == 1
    assert "Ebbtide stopped because of an internal bug (KeyError: 'no row for ***')." in printed
    assert "`ebb -c` resumes the session." in printed
    assert KEY not in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("model", ["anthropic/claude-haiku-5-5", "openai/gpt-6-sol", "ollama/q"])
@pytest.mark.parametrize("variable", ["ALL_PROXY=foo://x", "SSL_CERT_FILE=/nonexistent"])
def test_an_sdk_that_cannot_be_loaded_or_used_is_a_sentence(tmp_path: Path, model: str, variable: str) -> None:
    name, _, value = variable.partition("=")
    wire = f"providers.{model.partition('/')[0]}.wire=sdk"
    env = {name: value, "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "OLLAMA_HOST": "https://127.0.0.1:1"}
    done = ebb("-p", "hi", "-m", model, "--config", wire, home=tmp_path, env=env)
    assert done.code == 3
    assert f"`{name}`" in done.err
    assert "fault of its own" not in done.err


def test_no_output_holds_a_secret(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (home / "config").mkdir(parents=True)
    project.mkdir()
    echo = Turn(
        status=401, body={"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}
    )
    with FakeProvider([lambda _: echo]) as server:
        url = server.url.replace("http://", f"http://me:{PASSWORD}@") + "/v1"
        (home / "config" / "config.toml").write_text(
            f'[agent]\nmodel = "openai-chat/m"\n[providers.openai-chat]\nbase_url = "{url}"\napi_key_env = "MINE"\n'
            f'[mcp.servers.one]\nurl = "{server.url}/mcp"\nheaders = {{ "X-Key" = "{HEADER}" }}\n'
            f'[mcp.servers.two]\ncommand = "/nonexistent"\nenv = {{ "NAME" = "{HEADER}" }}\n'
        )
        env = {"MINE": KEY, "CONTEXT_DEBUG": "true", "HTTPS_PROXY": f"http://me:{PASSWORD}@127.0.0.1:1"}
        runs = [
            ebb(*arguments, home=home, env=env)
            for arguments in (
                ("-p", "hi", "--debug", "-C", str(project)),
                ("-p", "hi", "--output-format", "json", "-C", str(project)),
                ("-p", "hi", "--output-format", "stream-json", "--debug", "-C", str(project)),
                ("-p", "hi", "-C", str(project), "--config", "providers.openai-chat.base_url=https://127.0.0.1:1",
                 "--config", "retry.first=0.2"),
                ("config", "-C", str(project), "--config", f"mcp.servers.three.headers.A={HEADER}"),
                ("config", "--json", "-C", str(project), "--config", f"mcp.servers.three.headers.A={HEADER}"),
                ("config", "-C", str(project), "--config", f"mcp.servers.three.env={HEADER}"),
                ("config", "-C", str(project), "--config", f"providers.openai.base_url=https://me:{PASSWORD}@h"),
                ("-p", "hi", "-C", str(project), "--config", f"providers.openai-chat.base_url=https://me:{PASSWORD}@h:p"),
                ("doctor", "-C", str(project)),
                ("doctor", "--json", "--deep", "-C", str(project)),
                ("mcp", "list", "-C", str(project)),
                ("mcp", "test", "one", "--debug", "-C", str(project)),
                ("mcp", "test", "two", "-C", str(project)),
                ("context", "--json", "-C", str(project)),
                ("sessions", "list", "--json", "-C", str(project)),
            )
        ]  # fmt: skip
    for run in runs:
        for secret in (KEY, HEADER, PASSWORD):
            assert secret not in run.out + run.err
    assert runs[0].code == runs[1].code == 4
    assert json.loads(runs[5].out)["mcp.servers.three.headers"]["value"] == {"A": "…"}
    for path in (home / "logs").rglob("*"):
        written = path.read_text(errors="replace") if path.is_file() else ""
        assert not any(secret in written for secret in (KEY, HEADER, PASSWORD)), path


def test_a_server_that_prints_what_it_was_given_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    program = "import os, sys; sys.exit(f'refused: {sys.argv} {dict(os.environ)}')"
    (tmp_path / "config" / "config.toml").write_text(
        f'[mcp.servers.one]\ncommand = "{sys.executable}"\nargs = ["-c", "{program}", "--api-key", "{PASSWORD}"]\n'
        f'env = {{ "NAME" = "{HEADER}" }}\n[mcp.servers.two]\nurl = "http://127.0.0.1:1/mcp?key={PASSWORD}"\n'
    )
    folder = ("-C", str(tmp_path))
    commands = (("mcp", "test", "one"), ("mcp", "logs", "one"), ("mcp", "list"), ("mcp", "list", "--json"), ("config",))
    runs = [ebb(*arguments, *folder, home=tmp_path) for arguments in commands]
    assert "refused: " in runs[0].out
    assert "refused: " in runs[1].out
    written = [path.read_text() for path in (tmp_path / "logs" / "mcp").iterdir()]
    for text in (*(run.out + run.err for run in runs), *written):
        assert PASSWORD not in text
        assert HEADER not in text


def test_a_key_where_the_name_of_its_variable_belongs_is_not_shown(tmp_path: Path) -> None:
    run = ebb("config", "--config", f"providers.openai.api_key_env={KEY}", home=tmp_path)
    assert (run.code, KEY in run.err) == (2, False)
    assert "the name of the environment variable with the key, not the key itself" in run.err
    assert KEY not in ebb("config", "--config", f"providers.openai.api_key={KEY}", home=tmp_path).err
