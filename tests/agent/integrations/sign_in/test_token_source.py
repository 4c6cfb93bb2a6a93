"""Stored tokens: who gets them, when they are renewed, and that no refresh token is used twice."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AuthFailed, ConfigError, Unreachable
from ebbtide.agent.integrations.sign_in import token_server, token_source
from ebbtide.agent.integrations.sign_in.stored_tokens import Tokens, read_tokens, store_tokens
from ebbtide.agent.integrations.sign_in.token_server import TIMEOUT_S, TokenResponse
from ebbtide.agent.integrations.sign_in.token_source import TokenSource, current_tokens, shared_token_source
from ebbtide.agent.providers.factory import build_provider, check_provider
from ebbtide.agent.providers.keys import KeyStore, add_stored_keys, sign_in_store, without_stored_keys
from ebbtide.agent.providers.setup import find_endpoint
from ebbtide.tools.secrets.redaction import redact_text
from tests.kit.adapters import hello, last
from tests.kit.commands import ROOT, command, environment
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.sign_in_server import ACCESS, COPILOT_MODELS, REFRESH, SignInServer, sign_in_server


@pytest.fixture
def server() -> Iterator[SignInServer]:
    with sign_in_server() as running:
        yield running


def tokens_of(server: SignInServer, **changes: object) -> Tokens:
    url = f"{server.url}/login/oauth/access_token"
    return replace(Tokens(f"{ACCESS}_0", REFRESH, time.time() + 3600, 0, "id-1", url, ""), **changes)  # type: ignore[arg-type]  # each has its field's type


def stored(server: SignInServer, folder: Path, **changes: object) -> Tokens:
    tokens = tokens_of(server, **changes)
    store_tokens(folder, "copilot", server.url, tokens, "octocat")
    return tokens


async def test_a_token_is_used_until_five_minutes_before_its_end(server: SignInServer, tmp_path: Path) -> None:
    stored(server, tmp_path)
    assert await TokenSource("copilot", tmp_path).get_key() == f"{ACCESS}_0"
    assert server.requests == []
    stored(server, tmp_path, expires_at=time.time() + 299)
    source = TokenSource("copilot", tmp_path)
    assert (await source.get_key(), await source.get_key()) == (f"{ACCESS}_1", f"{ACCESS}_1")
    assert len(server.requests) == 1
    renewed = read_tokens(tmp_path, "copilot")
    assert renewed is not None
    assert (renewed.access_token, renewed.refresh_token) == (f"{ACCESS}_1", f"{REFRESH}_1")
    assert sign_in_store(tmp_path).stored_keys()["copilot"].account == "octocat"


async def test_a_token_that_is_not_to_be_renewed_yet_is_left_alone(server: SignInServer, tmp_path: Path) -> None:
    """OpenAI's refresh token is of no use any more after a renewal before `earliest_refresh_at`."""
    stored(server, tmp_path, expires_at=time.time() + 100, renewable_at=time.time() + 50)
    source = TokenSource("copilot", tmp_path)
    assert (await source.get_key(), await source.renew_key(f"{ACCESS}_0")) == (f"{ACCESS}_0", f"{ACCESS}_0")
    assert server.requests == []


async def test_sessions_of_a_process_renew_once(server: SignInServer, tmp_path: Path) -> None:
    stored(server, tmp_path, expires_at=1.0)
    sources = [shared_token_source("copilot", tmp_path), TokenSource("copilot", tmp_path)]
    assert sources[0] is shared_token_source("copilot", tmp_path)
    found = await asyncio.gather(*(source.get_key() for source in sources * 5))
    assert (set(found), len(server.requests)) == ({f"{ACCESS}_1"}, 1)
    rejected = await asyncio.gather(*(source.renew_key(f"{ACCESS}_1") for source in sources * 5))
    assert (set(rejected), len(server.requests)) == ({f"{ACCESS}_2"}, 2)


def test_processes_renew_once(server: SignInServer, tmp_path: Path) -> None:
    stored(server, tmp_path, expires_at=1.0)
    program = (
        "import sys; from pathlib import Path; "
        "from ebbtide.agent.integrations.sign_in.token_source import current_tokens; "
        "print(current_tokens(Path(sys.argv[1]), 'copilot').access_token)"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert {run.communicate(timeout=60)[0].strip() for run in runs} == {f"{ACCESS}_1"}
    assert len(server.requests) == 1


async def test_an_interrupted_request_does_not_lose_the_new_refresh_token(server: SignInServer, tmp_path: Path) -> None:
    stored(server, tmp_path, expires_at=1.0)
    source = TokenSource("copilot", tmp_path)
    request = asyncio.create_task(source.get_key())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert await source.get_key() == f"{ACCESS}_1"
    assert server.paths() == ["/login/oauth/access_token"]


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "invalid_grant"},
        {"error": "bad_refresh_token", "status": 200},
        {"error": {"code": "refresh_token_expired", "message": "gone"}},
    ],
)
async def test_a_refused_renewal_ends_the_sign_in(
    server: SignInServer, tmp_path: Path, answer: dict[str, object]
) -> None:
    stored(server, tmp_path, expires_at=1.0)
    server.renewals = [answer]
    with pytest.raises(AuthFailed) as caught:
        await TokenSource("copilot", tmp_path).get_key()
    assert str(caught.value) == ("your sign-in has ended at GitHub Copilot. Run `ebb key sign-in copilot` in a shell.")
    left = read_tokens(tmp_path, "copilot")
    assert left is not None
    assert left.refresh_token == ""


async def test_a_server_with_a_problem_does_not_end_the_sign_in(server: SignInServer, tmp_path: Path) -> None:
    stored(server, tmp_path, expires_at=1.0)
    server.renewals = [{"error": "temporarily_unavailable", "error_description": f"busy with {REFRESH}"}]
    with pytest.raises(AuthFailed, match=r"refuses the sign-in: temporarily_unavailable \(busy with \*\*\*\)"):
        await TokenSource("copilot", tmp_path).get_key()
    assert await TokenSource("copilot", tmp_path).get_key() == f"{ACCESS}_1"


@pytest.mark.parametrize(
    "answer",
    [{"status": 500, "message": "x"}, {"error": "weird"}, {"status": 429}, {"status": 200, "access_token": "a\nb"}],
)
async def test_a_token_that_is_still_valid_is_used_if_it_cannot_be_renewed_now(
    server: SignInServer, tmp_path: Path, answer: dict[str, object]
) -> None:
    stored(server, tmp_path, expires_at=time.time() + 200)
    server.renewals = [answer]
    source = TokenSource("copilot", tmp_path)
    assert [await source.get_key(), await source.get_key()] == [f"{ACCESS}_0", f"{ACCESS}_1"]


@pytest.mark.parametrize("status", [429, 500])
async def test_an_expired_token_waits_for_a_server_with_a_problem(
    server: SignInServer, tmp_path: Path, status: int
) -> None:
    """GitHub's token server sends JSON without an error code."""
    stored(server, tmp_path, expires_at=1.0)
    server.renewals = [{"status": status, "message": "Server Error"}]
    with pytest.raises(Unreachable, match=f"HTTP {status}"):
        await TokenSource("copilot", tmp_path).get_key()


@pytest.mark.parametrize("again", [False, True])
def test_a_sign_in_that_was_removed_or_repeated_during_its_renewal_stays_so(
    server: SignInServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    stored(server, tmp_path, expires_at=1.0)

    def post_form(url: str, fields: Mapping[str, str]) -> TokenResponse:
        sign_in_store(tmp_path).remove_key("copilot")
        if again:
            stored(server, tmp_path, access_token="gho_of_another_account")
        return token_server.post_form(url, fields)

    monkeypatch.setattr(token_source, "post_form", post_form)
    if again:
        assert current_tokens(tmp_path, "copilot").access_token == "gho_of_another_account"
    else:
        with pytest.raises(AuthFailed, match="you are not signed in to GitHub Copilot"):
            current_tokens(tmp_path, "copilot")


def test_a_folder_in_which_no_renewal_can_be_stored_is_named(server: SignInServer, tmp_path: Path) -> None:
    stored(server, tmp_path, expires_at=1.0)
    (tmp_path / "sign-ins.renewal.lock").mkdir()  # as a read-only folder does, this keeps the lock from being opened
    with pytest.raises(ConfigError, match=r"cannot write in .*: Is a directory"):
        current_tokens(tmp_path, "copilot")
    assert server.requests == []


def test_a_keyring_that_returns_nothing_is_named(tmp_path: Path) -> None:
    entry = {"origin": "https://api.githubcopilot.com", "place": "keyring", "account": "octocat"}
    (tmp_path / "sign-ins.json").write_text(json.dumps({"keys": {"copilot": entry}}))
    with pytest.raises(AuthFailed, match="the system keyring does not return your sign-in"):
        current_tokens(tmp_path, "copilot")


@pytest.mark.parametrize("change", [{"refresh_token": 5}, {"expires_at": "soon"}, {"access_token": None}])
def test_a_field_of_another_type_is_damage(server: SignInServer, tmp_path: Path, change: dict[str, object]) -> None:
    stored(server, tmp_path, **change)
    with pytest.raises(AuthFailed, match="the stored sign-in is damaged"):
        current_tokens(tmp_path, "copilot")


async def test_a_removed_or_damaged_sign_in(server: SignInServer, tmp_path: Path) -> None:
    stored(server, tmp_path)
    sign_in_store(tmp_path).store_key("copilot", server.url, '{"access_token": 1}')
    with pytest.raises(AuthFailed, match="the stored sign-in is damaged"):
        await TokenSource("copilot", tmp_path).get_key()
    sign_in_store(tmp_path).remove_key("copilot")
    with pytest.raises(AuthFailed, match="you are not signed in to GitHub Copilot"):
        current_tokens(tmp_path, "copilot")


def test_tokens_are_private_and_masked(server: SignInServer, tmp_path: Path) -> None:
    stored(server, tmp_path)
    path = tmp_path / "sign-ins.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["keys"]["copilot"]["account"] == "octocat"
    read_tokens(tmp_path, "copilot")
    assert ACCESS not in redact_text(f"a {ACCESS}_0 b", {})
    assert REFRESH not in redact_text(f"a {REFRESH} b", {})
    environment = add_stored_keys(tmp_path, {"A": "b"})
    assert environment == {"A": "b", "EBB_SIGNED_IN_COPILOT": server.url}
    assert without_stored_keys(environment) == {"A": "b"}


def config_of(server: SignInServer, home: Path, name: str, path: str) -> Config:
    settings = f'[providers.{name}]\nbase_url = "{server.url}{path}"\n'
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "config.toml").write_text(settings)
    return load_config(home, {"EBB_HOME": str(home)}, {})


async def test_models_are_used_with_the_tokens(server: SignInServer, tmp_path: Path) -> None:
    config = config_of(server, tmp_path, "copilot", "/copilot")
    folder = config.folders.config
    stored(server, folder)
    server.valid_tokens.add(f"{ACCESS}_0")
    environment = add_stored_keys(folder, {})
    provider = await build_provider(config, "copilot/gpt-5.2", environment)
    assert (await last(provider, hello())).message.text == "hi"
    assert (await check_provider("copilot", config, environment, 10))[1] == 200
    server.valid_tokens.clear()  # the next request is rejected and repeated with another token
    assert (await last(provider, hello())).message.text == "hi"
    assert [path for path in server.paths() if path != "/copilot/models"] == [
        "/copilot/responses", "/copilot/responses", "/login/oauth/access_token", "/copilot/responses",
    ]  # fmt: skip
    await provider.close()


async def test_a_sign_in_is_for_one_address(server: SignInServer, tmp_path: Path) -> None:
    config = config_of(server, tmp_path, "copilot", "/copilot")
    store_tokens(config.folders.config, "copilot", "https://api.githubcopilot.com", tokens_of(server), "octocat")
    environment = add_stored_keys(config.folders.config, {})
    with pytest.raises(AuthFailed, match=r"run `ebb key sign-in copilot` in a shell, or set .* COPILOT_GITHUB_TOKEN"):
        await build_provider(config, "copilot/gpt-5.2", environment)
    assert server.requests == []


async def test_a_variable_and_a_stored_key_take_precedence(server: SignInServer, tmp_path: Path) -> None:
    config = config_of(server, tmp_path, "copilot", "/copilot")
    folder = config.folders.config
    stored(server, folder)
    settings = config.provider_config("copilot")
    assert find_endpoint("copilot", settings, add_stored_keys(folder, {})).key is None
    KeyStore(folder).store_key("copilot", server.url, "github_pat_1")
    environment = add_stored_keys(folder, {})
    assert find_endpoint("copilot", settings, environment).key == "github_pat_1"
    assert find_endpoint("copilot", settings, {**environment, "COPILOT_GITHUB_TOKEN": "t"}).key == "t"


async def test_a_rejected_token_that_cannot_be_renewed(server: SignInServer, tmp_path: Path) -> None:
    config = config_of(server, tmp_path, "copilot", "/copilot")
    stored(server, config.folders.config, refresh_token="", expires_at=0)
    provider = await build_provider(config, "copilot/gpt-5.2", add_stored_keys(config.folders.config, {}))
    with pytest.raises(AuthFailed) as caught:
        await last(provider, hello())
    assert (caught.value.cause, caught.value.todo) == ("sign_in", "Run `ebb key sign-in copilot` again.")
    assert str(caught.value).startswith("copilot/gpt-5.2 rejected the sign-in: bad credentials.")
    await provider.close()


def test_ctrl_c_does_not_wait_for_a_renewal_that_hangs(server: SignInServer, tmp_path: Path) -> None:
    config = config_of(server, tmp_path, "copilot", "/copilot")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/login/oauth/access_token"
        stored(server, config.folders.config, expires_at=1.0, token_url=url)
        process = subprocess.Popen(
            command("-p", "go", "-m", "copilot/gpt-5.2", "-C", str(tmp_path)),
            env=environment(tmp_path),
            stdin=subprocess.DEVNULL,
        )
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(4) == b"POST"
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
            assert time.monotonic() - started < TIMEOUT_S / 2


async def test_a_403_is_no_reason_to_renew(server: SignInServer, tmp_path: Path) -> None:
    """It means the plan, the workspace or a policy: openai/codex issue 24495, `invalid_workspace_selected`."""
    turns = [Turn(status=status, error=("x", "No.")) for status in (403, 401, 403)]
    with FakeProvider(turns, rules=None, pages={"/models": {"data": COPILOT_MODELS}}) as api:
        config = config_of(replace(server, url=api.url), tmp_path, "copilot", "")
        store_tokens(config.folders.config, "copilot", api.url, tokens_of(server), "octocat")
        provider = await build_provider(config, "copilot/gpt-5.2", add_stored_keys(config.folders.config, {}))
        for _ in range(2):
            with pytest.raises(AuthFailed):
                await last(provider, hello())
        await provider.close()
        keys = [request.headers["authorization"] for request in api.requests]
    assert keys == [f"Bearer {ACCESS}_0", f"Bearer {ACCESS}_0", f"Bearer {ACCESS}_1"]
