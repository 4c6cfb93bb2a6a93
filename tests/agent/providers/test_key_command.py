"""Keys that a command prints: when it runs, for how long its key is used, and what its failures say."""

import asyncio
import os
from pathlib import Path
from typing import TypeAlias

import pytest

from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AuthFailed
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers import key_command
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.choices import list_model_choices
from ebbtide.agent.providers.factory import build_provider
from ebbtide.agent.providers.key_command import KEY_LIFETIME_S, KeyCommand, shared_key_command
from ebbtide.agent.providers.keys import KeyStore, add_stored_keys
from ebbtide.agent.providers.setup import find_default_model, find_endpoint, uses_key_command
from ebbtide.tools.secrets.redaction import redact_text
from tests.kit.key_program import KeyProgram
from tests.kit.polling import is_alive, soon

Command: TypeAlias = str | tuple[str, ...]
SECRET = "sk-secret-of-a-failure-01"
TODO = "Run this command in a shell to check it, or change `providers.anthropic.key_command`."


@pytest.fixture
def program(tmp_path: Path) -> KeyProgram:
    return KeyProgram(tmp_path)


class Clock:
    """A time that a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def command_of(folder: Path, command: Command, clock: Clock | None = None) -> KeyCommand:
    return KeyCommand("anthropic", command, dict(os.environ), folder, clock or Clock())


async def failure(folder: Path, command: Command) -> AuthFailed:
    with pytest.raises(AuthFailed) as caught:
        await command_of(folder, command).get_key()
    return caught.value


async def test_a_key_is_kept_for_five_minutes(program: KeyProgram, tmp_path: Path) -> None:
    clock = Clock()
    keys = command_of(tmp_path, program.command, clock)
    assert (await keys.get_key(), await keys.get_key()) == (program.key(1), program.key(1))
    clock.now += KEY_LIFETIME_S - 1
    assert (await keys.get_key(), program.runs) == (program.key(1), 1)
    clock.now += 1
    assert (await keys.get_key(), program.runs) == (program.key(2), 2)


async def test_a_rejected_key_is_renewed_once_for_all_that_have_used_it(program: KeyProgram, tmp_path: Path) -> None:
    keys = command_of(tmp_path, program.command)
    first = await keys.get_key()
    renewed = await asyncio.gather(*(keys.renew_key(first) for _ in range(5)))
    assert (set(renewed), program.runs) == ({program.key(2)}, 2)


async def test_sessions_of_one_process_share_a_key(program: KeyProgram, tmp_path: Path) -> None:
    given = {**os.environ, "EBB_STORED_KEY_ANTHROPIC": "k", "EBB_STORED_URL_ANTHROPIC": "https://api.anthropic.com"}
    commands = [
        shared_key_command("anthropic", program.command, environment, tmp_path)
        for environment in (os.environ, given, os.environ)
    ]
    found = await asyncio.gather(*(command.get_key() for command in commands))
    assert (set(found), program.runs) == ({program.key(1)}, 1)
    other = shared_key_command("anthropic", program.command, {**os.environ, "ACCOUNT": "2"}, tmp_path)
    assert (await other.get_key(), program.runs) == (program.key(2), 2)


async def test_a_list_is_run_without_a_shell(tmp_path: Path) -> None:
    assert await command_of(tmp_path, ("printf", "%s\\n", "sk-$HOME;x")).get_key() == "sk-$HOME;x"
    assert await command_of(tmp_path, "printf 'sk-%s \\r\\n' $((1 + 1))").get_key() == "sk-2"


async def test_the_command_gets_the_users_variables_and_no_stored_key_and_runs_at_home(tmp_path: Path) -> None:
    environment = {**os.environ, "VAULT_TOKEN": "sk-of-the-vault", "EBB_STORED_KEY_OPENAI": "sk-stored"}
    printed = "echo $VAULT_TOKEN:$EBB_STORED_KEY_OPENAI:$PWD"
    keys = shared_key_command("anthropic", printed, environment, tmp_path)
    assert await keys.get_key() == f"sk-of-the-vault::{tmp_path}"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo 'not signed in' >&2; echo more >&2; exit 3", "failed with exit code 3: not signed in."),
        ("exit 1", "failed with exit code 1."),
        ("kill -9 $$", "was ended by signal 9."),
        ("true", "printed nothing."),
        ("echo; echo ' '", "printed nothing."),
        ("echo a; echo b", "did not print a valid key: expected one line without spaces."),
        ("echo Bearer sk-1", "did not print a valid key: expected one line without spaces."),
        ("echo ké", "did not print a valid key: expected one line without spaces."),
        ("printf %09000d 1", "did not print a valid key: expected one line without spaces."),
        (
            ("/nonexistent/op", "read"),
            "cannot be started: [Errno 2] No such file or directory: '/nonexistent/op'.",
        ),
    ],
)
async def test_a_failure_names_the_command_and_its_end(tmp_path: Path, command: Command, says: str) -> None:
    error = await failure(tmp_path, command)
    written = command if isinstance(command, str) else " ".join(command)
    assert (str(error), error.exit_code) == (f"no key for anthropic: `{' '.join(written.split())}` {says} {TODO}", 4)


async def test_a_long_command_is_cut_in_a_failure(tmp_path: Path) -> None:
    assert f"`exit 1 # {'long ' * 38}l…` failed" in str(await failure(tmp_path, f"exit 1 # {'long ' * 1_000}"))


async def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_command, "KEY_COMMAND_TIMEOUT_S", 0.3)
    error = await failure(tmp_path, "sleep 60 & echo $! > pid; wait")
    assert "did not finish within 0 s" in str(error)
    await soon(lambda: not is_alive(int((tmp_path / "pid").read_text())))


async def test_a_failure_shows_no_secret(tmp_path: Path) -> None:
    """Neither one that the command is given, nor one that it prints before it fails."""
    shown = [
        await failure(tmp_path, f"echo {SECRET}; echo 'cannot use {SECRET}' >&2; exit 1"),
        await failure(tmp_path, ("false", "--token", "a-plain-word", f"--password={SECRET}")),
    ]
    assert SECRET not in "".join(map(str, shown))
    assert "a-plain-word" not in str(shown[1])
    assert "cannot use ***" in str(shown[0])


async def test_a_printed_key_is_hidden_as_one_from_the_environment_is(tmp_path: Path) -> None:
    key = "plain0key0of0a0command"
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, (f"providers.anthropic.key_command='echo {key}'",))
    secrets = SecretTokens()
    provider = await build_provider(config, "anthropic/claude-haiku-5-5", {"PATH": os.environ["PATH"]}, secrets=secrets)
    await provider.close()
    assert secrets.hide(f"the key is {key}").startswith("the key is ⟦secret:ANTHROPIC_API_KEY#")
    assert redact_text(f"the key is {key}", {}) == "the key is ***"


def configured(folder: Path, command: str) -> Config:
    return load_config(folder, {"EBB_HOME": str(folder)}, {}, (f"providers.openai.key_command={command!r}",))


def test_the_environment_comes_first_then_the_command_then_a_stored_key(tmp_path: Path) -> None:
    """As in Claude Code, where `ANTHROPIC_API_KEY` goes before `apiKeyHelper`, and both before a login."""
    KeyStore(tmp_path).store_key("openai", "https://api.openai.com", "sk-stored")
    stored = add_stored_keys(tmp_path, {})
    settings = configured(tmp_path, "false").provider_config("openai")
    url = "https://api.openai.com/v1"
    assert find_endpoint("openai", settings, {**stored, "OPENAI_API_KEY": "own"}) == Endpoint(url, "own")
    assert not uses_key_command("openai", settings, {"OPENAI_API_KEY": "own"})
    assert find_endpoint("openai", settings, stored) == Endpoint(url, None)
    assert uses_key_command("openai", settings, stored)


def test_a_provider_with_a_command_counts_as_having_a_key(tmp_path: Path) -> None:
    config = configured(tmp_path, f"touch {tmp_path}/ran")
    assert find_default_model(config.providers, {}).startswith("openai/")
    assert all(choice.has_key for choice in list_model_choices(config, {}) if choice.provider == "openai")
    assert not (tmp_path / "ran").exists()


async def test_the_library_may_use_one_command_in_several_event_loops(program: KeyProgram, tmp_path: Path) -> None:
    def run() -> list[str]:
        async def two() -> list[str]:
            keys = shared_key_command("anthropic", program.command, os.environ, tmp_path)
            return list(await asyncio.gather(keys.get_key(), keys.get_key()))

        return asyncio.run(two())

    assert await asyncio.to_thread(run) == [program.key(1)] * 2
    assert await asyncio.to_thread(run) == [program.key(2)] * 2
