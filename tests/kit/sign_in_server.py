"""GitHub and OpenAI on loopback, as far as a subscription needs them: the servers that sign in, the lists of models and
the APIs. They are as strict as the documents: what lacks a header or field is answered with 400.

docs.github.com "Authorizing OAuth apps" and RFC 8628 for the device flow, developers.openai.com/siwc for the browser
flow and the plan, public clients of Copilot for its API.
"""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

from ebbtide.agent.messages import Usage
from tests.kit.fake_frames import Turn, WireName, frames
from tests.kit.web_server import Answer, QuietHandler, web_server

CLIENT_ID = "Ov23liTestOfEbbtide"
ISSUED_ID = "oaiapp_test"
USER_CODE = "WDJB-MJHT"
ACCESS, REFRESH = "gho_access_0123456789", "ghr_refresh_0123456789"
FORM = "application/x-www-form-urlencoded"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
PLAN_SCOPE = "openid profile email offline_access resource.invoke chatgpt.tokens.use.direct"
UNSUPPORTED_BY_PLANS = (
    "background", "conversation", "max_output_tokens", "max_tool_calls", "metadata", "moderation", "multi_agent",
    "prompt", "prompt_cache_retention", "safety_identifier", "temperature", "top_logprobs", "top_p", "truncation",
    "user", "previous_response_id",
)  # fmt: skip

COPILOT_MODELS: list[dict[str, Any]] = [
    {
        "id": "gpt-5.2",
        "supported_endpoints": ["/chat/completions", "/responses"],
        "capabilities": {
            "limits": {"max_context_window_tokens": 400_000, "max_prompt_tokens": 272_000, "max_output_tokens": 64_000},
            "supports": {"tool_calls": True, "vision": True, "reasoning_effort": ["low", "high"]},
        },
    },
    {
        "id": "claude-sonnet-4.6",
        "supported_endpoints": ["/v1/messages", "/chat/completions"],
        "capabilities": {
            "limits": {"max_context_window_tokens": 200_000, "max_prompt_tokens": 128_000, "max_output_tokens": 32_000},
            "supports": {"tool_calls": True, "vision": True, "adaptive_thinking": True},
        },
    },
    {
        "id": "gpt-4.1",
        "capabilities": {
            "limits": {"max_context_window_tokens": 128_000, "max_output_tokens": 16_384},
            "supports": {"tool_calls": True, "vision": False},
        },
    },
]
PLAN_MODELS: list[dict[str, Any]] = [
    {
        "slug": "gpt-6-sol",
        "display_name": "GPT-6 Sol",
        "visibility": "list",
        "context_window": 353_000,
        "input_modalities": ["text", "image"],
        "supported_reasoning_levels": [{"effort": "low"}],
    },
    {"slug": "gpt-6-luna", "display_name": "GPT-6 Luna", "visibility": "list"},
]


def id_token(**claims: object) -> str:
    """A token whose signature nobody checks."""
    parts = ({"alg": "RS256"}, claims, "signature")
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)


@dataclass
class SignInServer:
    """What the server answers next, and what it was asked."""

    url: str = ""
    polls: list[dict[str, Any]] = field(default_factory=list)
    """The answers to the next questions about the code; then the tokens."""
    code: dict[str, Any] = field(default_factory=dict)
    """Changes to the answer that has the code."""
    status: int = 200
    """The status of errors: GitHub sends 200, RFC 8628 wants 400."""
    tokens: dict[str, Any] = field(default_factory=dict)
    """Changes to the tokens."""
    renewals: list[dict[str, Any]] = field(default_factory=list)
    """The answers to the next renewals; then new tokens."""
    clock_s: float = 0.0
    """How far the server's clock is ahead."""
    callback: dict[str, str] = field(default_factory=dict)
    """Changes to what the browser brings back."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Changes to the identity."""
    valid_tokens: set[str] = field(default_factory=set)
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    """Path, headers with names in lower case, and fields or JSON."""
    asked: list[float] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Refresh tokens that were used."""
    refused: list[str] = field(default_factory=list)
    issued_count: int = 0
    challenge: str = ""
    nonce: str = ""
    client_id: str = ISSUED_ID
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]

    def answer(self, handler: QuietHandler) -> Answer:
        if handler.path.startswith("/api/accounts/authorize?"):
            return 302, b"", {"location": self.end_of(f"{self.url}{handler.path}")}
        with self._lock:
            status, content = self._answer(handler)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        is_stream = isinstance(content, bytes)
        media_type = "text/event-stream" if is_stream else "application/json"
        date = formatdate(time.time() + self.clock_s, usegmt=True)
        handler.__dict__["date_time_string"] = lambda: date
        return status, body, {"content-type": media_type}

    def _answer(self, handler: QuietHandler) -> tuple[int, object]:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        path = urlsplit(handler.path).path
        has_body = "content-length" in headers
        raw = handler.body() if has_body else b""
        is_form = headers.get("content-type") == FORM
        body: dict[str, Any]
        if is_form:
            body = {name: values[0] for name, values in parse_qs(raw.decode()).items()}
        else:
            body = json.loads(raw) if raw else {}
        self.requests.append((path, headers, body))
        match path:
            case "/login/device/code":
                return self._device_code(headers, body)
            case "/login/oauth/access_token" if body.get("grant_type") == "refresh_token":
                return self._renewal(headers, body)
            case "/login/oauth/access_token":
                return self._device_tokens(headers, body)
            case "/api/accounts/oauth/token" if body.get("grant_type") == "refresh_token":
                return self._renewal(headers, body, resource="https://api.openai.com/v1")
            case "/api/accounts/oauth/token":
                return self._code_tokens(headers, body)
            case _:
                return self._api(path, headers, body)

    def _bad(self, reason: str) -> tuple[int, object]:
        self.refused.append(reason)
        return 400, {"error": "invalid_request", "error_description": reason}

    def _form_problem(self, headers: Mapping[str, str]) -> str:
        if headers.get("content-type") != FORM:
            return "not a form"
        if headers.get("accept") != "application/json":
            return "wants no JSON"
        return "" if headers.get("user-agent") == "ebbtide" else "no user agent of its own"

    def _device_code(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, object]:
        if problem := self._form_problem(headers):
            return self._bad(problem)
        if body.get("client_id") != CLIENT_ID:
            return 404, {"error": "Not Found"}
        if body != {"client_id": CLIENT_ID, "scope": "read:user"}:
            return self._bad("other fields")
        answer: dict[str, Any] = {
            "device_code": "device-0123456789",
            "user_code": USER_CODE,
            "verification_uri": f"{self.url}/login/device",
            "expires_in": 900,
            "interval": 5,
            **self.code,
        }
        return (self.status if "error" in answer else 200), answer

    def _device_tokens(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, object]:
        if problem := self._form_problem(headers):
            return self._bad(problem)
        if body != {"client_id": CLIENT_ID, "device_code": "device-0123456789", "grant_type": DEVICE_GRANT}:
            return self._bad("other fields")
        if self.polls:
            answer = self.polls.pop(0)
            return answer.pop("status", self.status), answer.pop("body", answer)
        return 200, self._issue()

    def _issue(self) -> dict[str, Any]:
        self.issued_count += 1
        access = f"{ACCESS}_{self.issued_count}"
        self.valid_tokens.add(access)
        return {"access_token": access, "token_type": "bearer", "scope": "read:user", **self.tokens}

    def _renewal(
        self, headers: Mapping[str, str], body: Mapping[str, Any], resource: str | None = None
    ) -> tuple[int, object]:
        if problem := self._form_problem(headers):
            return self._bad(problem)
        if body.get("resource") != resource or not body.get("client_id"):
            return self._bad("other fields")
        if self.renewals:
            answer = self.renewals.pop(0)
            return answer.pop("status", 400), answer
        if body["refresh_token"] in self.used:
            return 400, {"error": {"code": "refresh_token_reused", "message": "used"}}
        self.used.add(body["refresh_token"])
        return 200, {**self._issue(), "refresh_token": f"{REFRESH}_{self.issued_count}", "expires_in": 3600}

    def allow(self, page: str) -> None:
        """Do what the user and the browser do at the address."""
        with urlopen(page, timeout=10) as response:
            assert response.status == 200

    def end_of(self, page: str) -> str:
        """The address to which the server sends the browser."""
        split_url = urlsplit(page)
        asked = {name: values[0] for name, values in parse_qs(split_url.query).items()}
        assert f"{split_url.scheme}://{split_url.netloc}{split_url.path}" == f"{self.url}/api/accounts/authorize"
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert asked["scope"] == PLAN_SCOPE
        assert asked["resource"] == "https://api.openai.com/v1"
        assert asked["ext_agent_host_id"].startswith("urn:uuid:")
        is_first = asked["client_id"] == "dynamic_agent_client"
        assert asked.get("agent_name_hint") == ("Ebbtide" if is_first else None)
        redirect = urlsplit(asked["redirect_uri"])
        assert (redirect.scheme, redirect.hostname, redirect.path) == ("http", "127.0.0.1", "/auth/callback")
        self.challenge, self.nonce = asked["code_challenge"], asked["nonce"]
        brought = {"code": "code-1", "state": asked["state"], "client_id": self.client_id, **self.callback}
        return f"{asked['redirect_uri']}?{urlencode({name: value for name, value in brought.items() if value})}"

    def _code_tokens(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, object]:
        if problem := self._form_problem(headers):
            return self._bad(problem)
        names = {"grant_type", "client_id", "code", "code_verifier", "redirect_uri", "resource"}
        verified = hashlib.sha256(body.get("code_verifier", "").encode()).digest()
        if set(body) != names or body["client_id"] != self.client_id or body["grant_type"] != "authorization_code":
            return self._bad("other fields")
        if base64.urlsafe_b64encode(verified).rstrip(b"=").decode() != self.challenge:
            return 400, {"error": "invalid_grant", "error_description": "wrong verifier"}
        claims = {"iss": self.url, "aud": self.client_id, "sub": "u1", "nonce": self.nonce, "email": "me@example.org"}
        issued = self._issue()
        more = {"refresh_token": REFRESH, "expires_in": 3600, "id_token": id_token(**{**claims, **self.claims})}
        return 200, {**issued, **more, "scope": PLAN_SCOPE, **self.tokens}

    def _api(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, object]:
        if headers.get("authorization", "").removeprefix("Bearer ") not in self.valid_tokens:
            return 401, {"error": {"message": "bad credentials"}}
        if "x-api-key" in headers:
            return self._bad("a second key")
        match path:
            case "/api/v3/user":
                return 200, {"login": "octocat"}
            case "/copilot/models":
                return 200, {"data": COPILOT_MODELS}
            case "/plan/models":
                return 200, {"models": PLAN_MODELS}
            case "/plan/responses":
                return self._plan_reply(body)
            case "/copilot/v1/messages" | "/copilot/responses" | "/copilot/chat/completions":
                return self._copilot_reply(path, headers)
            case _:
                return 404, {"error": {"message": "not here"}}

    def _copilot_reply(self, path: str, headers: Mapping[str, str]) -> tuple[int, object]:
        if headers.get("x-initiator") not in ("user", "agent") or headers.get("openai-intent") != "conversation-edits":
            return self._bad("no initiator or intent")
        wire: WireName = "anthropic" if "messages" in path else "responses" if "responses" in path else "chat"
        return 200, _stream(wire)

    def _plan_reply(self, body: Mapping[str, Any]) -> tuple[int, object]:
        if wrong := [name for name in UNSUPPORTED_BY_PLANS if name in body]:
            return self._bad(f"unsupported: {wrong}")
        if body.get("store") is not False or body.get("stream") is not True or not isinstance(body["input"], list):
            return self._bad("stored, not streamed or no list")
        if any(item.get("role") == "system" for item in body["input"]):
            return self._bad("a system message")
        if any(tool["type"] != "namespace" for tool in body.get("tools", ())):
            return self._bad("a tool without namespace")
        called = [item for item in body["input"] if item.get("type") == "function_call"]
        if any(call.get("namespace") != "ebbtide" for call in called):
            return self._bad("a call without namespace")
        return 200, _stream("responses")


def _stream(wire: WireName) -> bytes:
    pieces = frames(wire, Turn(text="hi", usage=Usage(input=9, output=2)), 1, "model")
    return "".join((*pieces.content, *pieces.end)).encode()


@contextmanager
def sign_in_server(**settings: Any) -> Iterator[SignInServer]:
    """A server for as long as a block lasts. At its end, it fails if requests were not as documented."""
    server = SignInServer(**settings)
    with web_server(server.answer) as server.url:
        yield server
    assert server.refused == []
