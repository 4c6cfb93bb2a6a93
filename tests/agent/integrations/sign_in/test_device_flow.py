"""The device flow against a strict server: each answer of RFC 8628, GitHub's own, and what a network does."""

import json
import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any, cast
from urllib.error import URLError

import pytest

from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.errors import AgentError, AuthFailed, ConfigError, RouteFailed, Unreachable
from ebbtide.agent.integrations.sign_in import token_server
from ebbtide.agent.integrations.sign_in.device_flow import DeviceCode, DeviceFlow
from ebbtide.agent.integrations.sign_in.services import copilot_flow, github_user_url, sign_in_with_code
from tests.kit.sign_in_server import ACCESS, CLIENT_ID, USER_CODE, SignInServer, sign_in_server

PENDING = {"error": "authorization_pending"}


class Clock:
    """A time that passes only while it is waited for."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def time(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[SignInServer]:
    with sign_in_server() as running:
        yield running


def flow_of(server: SignInServer) -> DeviceFlow:
    return copilot_flow(settings_of(server))


def settings_of(server: SignInServer) -> ProviderConfig:
    return ProviderConfig(client_id=CLIENT_ID, sign_in_url=server.url)


def waits_of(server: SignInServer) -> list[float]:
    flow, clock = flow_of(server), Clock()
    answer = flow.wait_for_tokens(flow.request_code(), clock.wait, clock.time)
    assert answer.text("access_token") == f"{ACCESS}_1"
    return clock.waits


def failure_of(server: SignInServer) -> AgentError:
    flow, clock = flow_of(server), Clock()
    with pytest.raises(AgentError) as caught:
        flow.wait_for_tokens(flow.request_code(), clock.wait, clock.time)
    return caught.value


def test_the_code_is_shown_and_asked_about_at_the_servers_interval(server: SignInServer) -> None:
    server.polls = [dict(PENDING), dict(PENDING)]
    assert waits_of(server) == [5, 5, 5]
    assert flow_of(server).request_code() == DeviceCode(
        USER_CODE, f"{server.url}/login/device", f"{server.url}/login/device", "device-0123456789", 900, 5
    )


@pytest.mark.parametrize("status", [200, 400])
def test_slow_down_adds_five_seconds_or_what_the_server_says(server: SignInServer, status: int) -> None:
    server.status = status
    server.polls = [{"error": "slow_down"}, dict(PENDING), {"error": "slow_down", "interval": 17}, dict(PENDING)]
    assert waits_of(server) == [5, 10, 10, 17, 17]


@pytest.mark.parametrize(("given", "interval"), [({"interval": 0}, 5), ({"interval": "7"}, 7), ({"interval": None}, 5)])
def test_an_interval_that_is_missing_or_a_text(server: SignInServer, given: dict[str, Any], interval: float) -> None:
    server.code = given
    assert waits_of(server) == [interval]


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"error": "access_denied"}, "you denied access to GitHub Copilot. Nothing was stored."),
        ({"error": "expired_token"}, "the code has expired. Run `ebb key sign-in copilot` again."),
        (
            {"error": "unsupported_grant_type", "error_description": "The grant type\nis wrong."},
            "GitHub Copilot refuses the sign-in: unsupported_grant_type (The grant type is wrong).",
        ),
        ({"error": "incorrect_device_code"}, "GitHub Copilot refuses the sign-in: incorrect_device_code."),
        ({"error": "invalid_grant"}, "GitHub Copilot refuses the sign-in: invalid_grant."),
        ({"error": "\x1b[31mred"}, "GitHub Copilot refuses the sign-in: red."),
        (
            {"error": "incorrect_client_credentials"},
            f"GitHub Copilot does not know the id `{CLIENT_ID}`. Check `providers.copilot.client_id`.",
        ),
        (
            {"error": "device_flow_disabled"},
            f"the program registered as `{CLIENT_ID}` may not sign in with a code. Enable the device flow in its "
            "settings, or change `providers.copilot.client_id`.",
        ),
    ],
)
def test_a_refusal_is_one_sentence(server: SignInServer, answer: dict[str, Any], text: str, status: int) -> None:
    server.status, server.polls = status, [dict(PENDING), answer]
    assert str(failure_of(server)) == text
    assert server.polls == []


def test_an_unknown_id_is_named(server: SignInServer) -> None:
    flow = copilot_flow(ProviderConfig(client_id="Ov23liOther", sign_in_url=server.url))
    with pytest.raises(AuthFailed, match="does not know the id `Ov23liOther`"):
        flow.request_code()


@pytest.mark.parametrize(
    "answer",
    [{"error": "slow_down"}, {"user_code": ""}, {"device_code": 5}, {"verification_uri": "javascript:alert(1)"}],
)
def test_an_answer_without_a_code_is_refused(server: SignInServer, answer: dict[str, Any]) -> None:
    server.code = answer
    text = "refuses the sign-in: slow_down" if "error" in answer else "sent an incomplete or invalid response"
    with pytest.raises(AuthFailed, match=f"GitHub Copilot {text}"):
        flow_of(server).request_code()


def test_a_code_ends_even_if_the_server_does_not_say_so(server: SignInServer) -> None:
    server.code, server.polls = {"expires_in": 12}, [dict(PENDING) for _ in range(9)]
    assert str(failure_of(server)) == "the code has expired. Run `ebb key sign-in copilot` again."
    assert len(server.polls) == 7


def test_a_server_that_has_a_problem_is_asked_again_less_often(server: SignInServer) -> None:
    server.polls = [{"status": 502, "body": b"<html>"}, {"status": 503, "body": b""}, dict(PENDING)]
    assert waits_of(server) == [5, 10, 20, 20]


@pytest.mark.parametrize(
    "polls",
    [
        [{"status": 500, "message": "Server Error"}, {"status": 429, "message": "Too many"}],
        [{"status": 503, "error": "temporarily_unavailable"}, {"status": 429, "body": b"Too many"}],
        [{"status": 429, "error": "slow_down"}, {"status": 500, "error": {"code": None, "message": "x"}}],
    ],
)
def test_a_problem_described_in_json_is_one_too(server: SignInServer, polls: list[dict[str, Any]]) -> None:
    """GitHub describes its problems so, and Auth0 sends `slow_down` with status 429."""
    server.polls = polls
    assert waits_of(server) == [5, 10, 20]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e300", "1" + "0" * 400, '"NaN"'])
def test_an_absurd_number_counts_as_missing(server: SignInServer, number: str) -> None:
    """Such a number made the program poll without a pause, or stop with a traceback."""
    server.code = {"interval": json.loads(number), "expires_in": json.loads(number)}
    server.polls = [dict(PENDING)]
    assert waits_of(server) == [5, 5]


def test_the_code_ends_while_an_interval_lasts(server: SignInServer) -> None:
    flow, clock = flow_of(server), Clock()
    server.code = {"interval": 1_000_000, "expires_in": 12}
    with pytest.raises(AuthFailed, match="the code has expired"):
        flow.wait_for_tokens(flow.request_code(), clock.wait, clock.time)
    assert clock.waits == [12]


@pytest.mark.parametrize("token", ["gho_a\nb", "gho_ä", "gho a"])
def test_a_token_that_cannot_be_sent_is_not_stored(server: SignInServer, token: str) -> None:
    server.tokens = {"access_token": token}
    assert str(failure_of(server)) == (
        "GitHub Copilot sent an incomplete or invalid response to the sign-in. Try again later."
    )


def test_an_error_without_a_code_is_not_called_none(server: SignInServer) -> None:
    server.polls = [{"status": 400, "error": {"code": None, "message": "bad thing"}}]
    assert str(failure_of(server)) == "GitHub Copilot refuses the sign-in: HTTP 400 (bad thing)."


def test_a_response_that_arrives_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of all processes wait for a renewal."""
    sent = iter(range(1_000))

    class SlowResponse:
        def read1(self, size: int) -> bytes:
            return b" " * min(size, 1 if next(sent) < 900 else 0)

    monkeypatch.setattr("time.monotonic", lambda: float(next(sent)))
    with pytest.raises(TimeoutError):
        token_server._read_body(cast(HTTPResponse, SlowResponse()))


def test_a_web_page_in_between_is_named(server: SignInServer) -> None:
    server.polls = [{"status": 200, "body": b"<html>log in"}]
    error = failure_of(server)
    assert isinstance(error, RouteFailed)
    assert "did not answer with JSON (HTTP 200): a proxy or login page may be in between" in str(error)


def test_no_network_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    flow = copilot_flow(ProviderConfig(client_id=CLIENT_ID, sign_in_url=f"http://127.0.0.1:{port}"))
    with pytest.raises(Unreachable) as caught:
        flow.request_code()
    assert str(caught.value) == f"127.0.0.1:{port} cannot be reached: Connection refused. Check the network."


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (
            "http://me:secret@127.0.0.1:1",
            "sign-in.example cannot be reached through the proxy `127.0.0.1:1`: Connection refused. Check the proxy.",
        ),
        (
            "socks5://127.0.0.1:1",
            "the sign-in cannot use the SOCKS proxy `127.0.0.1:1`. Set `HTTPS_PROXY` to an HTTP proxy.",
        ),
    ],
)
def test_a_proxy_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, address: str, words: str) -> None:
    monkeypatch.setenv("https_proxy", address)
    with pytest.raises(Unreachable) as caught:
        token_server.post_form("https://sign-in.example/token", {})
    assert str(caught.value) == words


def test_a_lost_network_is_waited_for_until_the_code_ends(server: SignInServer) -> None:
    flow, clock = flow_of(server), Clock()
    code = flow.request_code()
    gone = DeviceFlow(flow.title, flow.provider, flow.code_url, "http://127.0.0.1:1/token", CLIENT_ID, flow.scope)
    with pytest.raises(Unreachable, match="cannot be reached"):
        gone.wait_for_tokens(code, clock.wait, clock.time)
    assert clock.waits[:6] == [5, 10, 20, 40, 60, 60]
    assert sum(clock.waits) < code.lifetime_s


def test_tokens_are_sent_to_no_other_address(server: SignInServer) -> None:
    server.polls = [{"status": 302, "body": b"{}"}]
    assert "refuses the sign-in: HTTP 302" in str(failure_of(server))
    for url in ("http://example.org", "github.com", "file:///etc/passwd"):
        with pytest.raises(ConfigError, match=r"must begin with `https://`"):
            copilot_flow(ProviderConfig(client_id=CLIENT_ID, sign_in_url=url))


def test_without_a_registered_program_it_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"`providers\.copilot\.client_id` to the id of an OAuth app"):
        copilot_flow(ProviderConfig())


@pytest.mark.parametrize(
    ("address", "user"),
    [
        ("https://github.com/login/device/code", "https://api.github.com/user"),
        ("https://octo.ghe.com/login", "https://api.octo.ghe.com/user"),
        ("http://127.0.0.1:80/x", "http://127.0.0.1:80/api/v3/user"),
    ],
)
def test_where_github_names_the_user(address: str, user: str) -> None:
    assert github_user_url(address) == user


def test_the_account_is_named(server: SignInServer) -> None:
    shown: list[DeviceCode] = []
    signed_in = sign_in_with_code(settings_of(server), shown.append, lambda seconds: None)
    assert (signed_in.account, signed_in.tokens.access_token) == ("octocat", f"{ACCESS}_1")
    assert (signed_in.tokens.expires_at, signed_in.tokens.refresh_token) == (0, "")
    assert [code.user_code for code in shown] == [USER_CODE]


@pytest.mark.parametrize(("clock_s", "words"), [(7_200, "120 minutes behind"), (-7_200, "120 minutes ahead")])
def test_a_wrong_clock_is_named_if_tokens_have_an_end(server: SignInServer, clock_s: float, words: str) -> None:
    server.clock_s = clock_s
    assert sign_in_with_code(settings_of(server), lambda code: None, lambda seconds: None).account == "octocat"
    server.tokens = {"expires_in": 28_800, "refresh_token": "ghr_1"}
    with pytest.raises(AuthFailed) as caught:
        sign_in_with_code(settings_of(server), lambda code: None, lambda seconds: None)
    assert str(caught.value) == f"the clock of this machine is {words}. Set it, then sign in again."


@pytest.mark.parametrize(
    ("code", "message", "words"),
    [
        (9, "certificate is not yet valid", "the certificate of github.com is not valid at the time of this machine, "),
        (10, "certificate has expired", "the certificate of github.com is not valid at the time of this machine, "),
        (
            20,
            "unable to get local issuer certificate",
            "is not trusted: unable to get local issuer certificate. If your ",
        ),
    ],
)
def test_a_certificate_tells_of_a_wrong_clock(
    monkeypatch: pytest.MonkeyPatch, code: int, message: str, words: str
) -> None:
    error = ssl.SSLCertVerificationError(1, message)
    error.verify_code, error.verify_message = code, message

    def fail(*args: object, **kwargs: object) -> None:
        raise URLError(error)

    monkeypatch.setattr("urllib.request.OpenerDirector.open", fail)
    with pytest.raises(RouteFailed) as caught:
        copilot_flow(ProviderConfig(client_id=CLIENT_ID)).request_code()
    assert words in str(caught.value)
    assert ("Check its clock." in str(caught.value)) == (code != 20)
