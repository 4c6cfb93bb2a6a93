"""The browser flow, as OpenAI documents it for programs with open source."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest

from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.errors import AgentError, AuthFailed
from ebbtide.agent.integrations.sign_in.browser_flow import BrowserSignIn
from ebbtide.agent.integrations.sign_in.services import SignedIn, chatgpt_flow, sign_in_with_browser
from ebbtide.agent.integrations.sign_in.stored_tokens import store_tokens
from tests.kit.sign_in_server import ACCESS, ISSUED_ID, REFRESH, SignInServer, sign_in_server

ORIGIN = "https://api.openai.com"
FOREIGN_IDENTITY = "the identity that ChatGPT sent does not belong to this sign-in. Try again."


@pytest.fixture
def server() -> Iterator[SignInServer]:
    with sign_in_server() as running:
        yield running


def sign_in(server: SignInServer, folder: Path, *, pastes: bool = False) -> SignedIn:
    """Sign in with a browser on this machine, or with one whose last address is pasted."""

    def wait(attempt: BrowserSignIn, seconds: float) -> None:
        assert 0 <= seconds <= 600
        if pastes:
            attempt.accept_callback_url(f"{server.end_of(attempt.authorization_url)}\n")
            return
        browse_to_the_end(server, attempt)

    return sign_in_with_browser(ProviderConfig(sign_in_url=server.url), folder, lambda attempt: None, wait)


def browse_to_the_end(server: SignInServer, attempt: BrowserSignIn) -> None:
    browser = Thread(target=server.allow, args=(attempt.authorization_url,))
    browser.start()
    while browser.is_alive():
        attempt.handle_browser()
    browser.join()


def failure_of(server: SignInServer, folder: Path) -> str:
    with pytest.raises(AgentError) as caught:
        sign_in(server, folder, pastes=True)
    return str(caught.value)


@pytest.mark.parametrize("pastes", [False, True])
def test_the_program_is_registered_and_uses_the_issued_id(server: SignInServer, tmp_path: Path, pastes: bool) -> None:
    signed_in = sign_in(server, tmp_path, pastes=pastes)
    tokens = signed_in.tokens
    assert (signed_in.account, tokens.access_token, tokens.refresh_token) == (
        "me@example.org", f"{ACCESS}_1", REFRESH,
    )  # fmt: skip
    assert (tokens.client_id, tokens.resource) == (ISSUED_ID, "https://api.openai.com/v1")


def test_a_later_sign_in_uses_the_same_id_and_host(server: SignInServer, tmp_path: Path) -> None:
    first = chatgpt_flow(ProviderConfig(sign_in_url=server.url), tmp_path)
    assert (first.client_id, first.assigns_client_id) == ("dynamic_agent_client", True)
    signed_in = sign_in(server, tmp_path, pastes=True)
    store_tokens(tmp_path, "chatgpt", ORIGIN, signed_in.tokens, signed_in.account)
    second = chatgpt_flow(ProviderConfig(sign_in_url=server.url), tmp_path)
    assert (second.client_id, second.assigns_client_id) == (ISSUED_ID, False)
    assert second.extra_parameters == {"ext_agent_host_id": first.extra_parameters["ext_agent_host_id"]}
    assert sign_in(server, tmp_path, pastes=True).tokens.access_token == f"{ACCESS}_2"
    server.client_id = "oaiapp_other"
    assert failure_of(server, tmp_path) == (
        "you signed in with another account than before. Run `ebb key remove chatgpt` first."
    )


def test_each_attempt_has_secrets_of_its_own(server: SignInServer, tmp_path: Path) -> None:
    flow = chatgpt_flow(ProviderConfig(sign_in_url=server.url), tmp_path)
    pages = []
    for _ in range(2):
        with BrowserSignIn(flow) as attempt:
            pages.append(parse_qs(urlsplit(attempt.authorization_url).query))
    for name in ("state", "nonce", "code_challenge"):
        assert pages[0][name] != pages[1][name]
        assert len(pages[0][name][0]) >= 43


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"callback": {"error": "access_denied", "code": ""}}, "you denied access to ChatGPT. Nothing was stored."),
        (
            {"callback": {"error": "server_error", "error_description": "try\nlater", "code": ""}},
            "ChatGPT refuses the sign-in: server_error (try later).",
        ),
        ({"client_id": "dynamic_agent_client"}, "ChatGPT did not register this program. Try again later."),
        ({"client_id": ""}, "ChatGPT did not register this program. Try again later."),
        ({"callback": {"code": ""}}, "ChatGPT did not register this program. Try again later."),
        (
            {"tokens": {"scope": "openid profile email offline_access"}},
            "you did not allow Ebbtide to use your ChatGPT plan. Run `ebb key sign-in chatgpt` again.",
        ),
        (
            {"tokens": {"access_token": ""}},
            "ChatGPT sent an incomplete or invalid response to the sign-in. Try again later.",
        ),
        ({"claims": {"nonce": "of another"}}, FOREIGN_IDENTITY),
        ({"claims": {"aud": ["other"]}}, FOREIGN_IDENTITY),
        ({"claims": {"iss": "https://x"}}, FOREIGN_IDENTITY),
        ({"tokens": {"id_token": "a.%%.c"}}, FOREIGN_IDENTITY),
        ({"clock_s": 3_600.0}, "the clock of this machine is 60 minutes behind. Set it, then sign in again."),
    ],
)  # fmt: skip
def test_a_failure_is_one_sentence(server: SignInServer, tmp_path: Path, change: dict[str, Any], text: str) -> None:
    for name, value in change.items():
        setattr(server, name, value)
    assert failure_of(server, tmp_path) == text


def test_a_foreign_request_does_not_end_the_sign_in(server: SignInServer, tmp_path: Path) -> None:
    seen: list[int] = []

    def wait(attempt: BrowserSignIn, seconds: float) -> None:
        root = attempt.redirect_url
        assert not attempt.accept_callback_url("some words")
        for foreign in (f"{root}?state=other&code=x", root.replace("callback", "x"), f"{root}?code=x&state=%C3%BC"):
            seen.append(status_of(attempt, foreign))
        attempt.accept_callback_url(server.end_of(attempt.authorization_url))

    settings = ProviderConfig(sign_in_url=server.url)
    assert sign_in_with_browser(settings, tmp_path, lambda attempt: None, wait).account == "me@example.org"
    assert seen == [400, 400, 400]


def status_of(attempt: BrowserSignIn, url: str) -> int:
    found: list[int] = []

    def browse() -> None:
        try:
            with urlopen(url, timeout=10) as response:
                found.append(response.status)
        except HTTPError as error:
            with error:
                found.append(error.code)

    browser = Thread(target=browse)
    browser.start()
    while browser.is_alive():
        attempt.handle_browser()
    browser.join()
    return found[0]


def test_nobody_comes(server: SignInServer, tmp_path: Path) -> None:
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += 100

    flow = chatgpt_flow(ProviderConfig(sign_in_url=server.url), tmp_path)
    with BrowserSignIn(flow) as attempt, pytest.raises(AuthFailed, match="there was no sign-in within 10 minutes"):
        attempt.wait_for_tokens(wait, lambda: now)
    assert now == 600
