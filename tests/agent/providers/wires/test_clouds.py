"""Models of Anthropic and OpenAI at clouds: address, sign-in and stream, on loopback. In `test_aimock.py` a server that
others wrote takes the place of Bedrock and Azure."""

import base64
import binascii
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from anthropic.lib.aws._auth import _get_session

from ebbtide.agent.config.clouds import cloud_base_url, deployment_base_url, uses_gateway
from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.errors import (
    AuthFailed,
    ConfigError,
    ContextOverflow,
    ProviderError,
    RateLimited,
    StreamCut,
    UsageError,
)
from ebbtide.agent.providers.base import Endpoint, Provider
from ebbtide.agent.providers.factory import build_provider
from ebbtide.agent.providers.wires import clouds
from ebbtide.agent.providers.wires.reachability import check_server
from tests.kit.adapters import collect, hello, last
from tests.kit.session import CONFIG

EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 9, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße ✓"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)
CHAT: tuple[dict[str, Any], ...] = (
    {"choices": [{"index": 0, "delta": {"content": "Grüße ✓"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}},
)
RESPONSES: tuple[dict[str, Any], ...] = (
    {
        "type": "response.completed",
        "response": {
            "status": "completed",
            "output": [{"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Grüße ✓"}]}],
            "usage": {"input_tokens": 9, "output_tokens": 5},
        },
    },
)


def sse(events: tuple[dict[str, Any], ...]) -> bytes:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


def aws_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A frame of AWS's event stream encoding: lengths and their CRC, headers, payload, CRC of all."""
    names = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(names) + len(payload), len(names))
    head = prelude + struct.pack(">I", binascii.crc32(prelude)) + names + payload
    return head + struct.pack(">I", binascii.crc32(head))


def bedrock(events: tuple[dict[str, Any], ...]) -> bytes:
    headers = {":message-type": "event", ":event-type": "chunk", ":content-type": "application/json"}
    return b"".join(
        aws_frame(headers, json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode())
        for event in events
    )


@dataclass
class Cloud:
    """A server that answers every POST in the same way."""

    body: bytes
    media_type: str = "text/event-stream"
    status: int = 200
    url: str = ""
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)


@contextmanager
def cloud(server: Cloud) -> Iterator[Cloud]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.requests.append((self.path, headers, content))
            self.send_response(server.status)
            self.send_header("content-type", server.media_type)
            self.send_header("content-length", str(len(server.body)))
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: tests read `requests`."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=http.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


async def connect(model: str, environment: Mapping[str, str], base_url: str = "") -> Provider:
    config = replace(CONFIG, providers={model.partition("/")[0]: ProviderConfig(base_url=base_url or None)})
    return await build_provider(config, model, environment)


async def ask(model: str, environment: Mapping[str, str], base_url: str = "") -> str:
    provider = await connect(model, environment, base_url)
    try:
        return (await last(provider, hello())).message.text
    finally:
        await provider.close()


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At an address that does not name the region, the SDK takes it from the environment. It caches credentials for the
    whole process."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    yield
    _get_session.cache_clear()  # type: ignore[attr-defined]  # the SDK declares its cache untyped


@pytest.mark.parametrize(
    ("name", "environment", "address"),
    [
        ("bedrock", {"AWS_REGION": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ("bedrock", {"AWS_DEFAULT_REGION": "us-east-1"}, "https://bedrock-runtime.us-east-1.amazonaws.com"),
        (
            "vertex",
            {"ANTHROPIC_VERTEX_PROJECT_ID": "p"},
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global",
        ),
        (
            "vertex",
            {"GOOGLE_CLOUD_PROJECT": "p", "CLOUD_ML_REGION": "us"},
            "https://aiplatform.us.rep.googleapis.com/v1/projects/p/locations/us",
        ),
        (
            "vertex",
            {"GOOGLE_CLOUD_PROJECT": "p", "CLOUD_ML_REGION": "us-east5"},
            "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5",
        ),
        ("foundry", {"ANTHROPIC_FOUNDRY_RESOURCE": "r"}, "https://r.services.ai.azure.com/anthropic"),
        (
            "foundry",
            {"ANTHROPIC_FOUNDRY_RESOURCE": "r.services.ai.azure.com"},
            "https://r.services.ai.azure.com/anthropic",
        ),
    ],
)
def test_the_address_follows_from_the_variables_of_the_cloud(
    name: str, environment: dict[str, str], address: str
) -> None:
    assert cloud_base_url(name, "", environment) == address


def test_the_region_of_bedrock_is_also_that_of_the_profile(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = eu-north-1\n[profile work]\nregion=us-west-2\n")
    home = {"HOME": str(tmp_path)}
    assert cloud_base_url("bedrock", "", home) == "https://bedrock-runtime.eu-north-1.amazonaws.com"
    work = {**home, "AWS_PROFILE": "work"}
    assert cloud_base_url("bedrock", "", work) == "https://bedrock-runtime.us-west-2.amazonaws.com"
    # anthropic-bedrock-python 130: the older variable, and a region beside the credentials
    (tmp_path / ".aws" / "credentials").write_text("[other]\nregion = ap-south-1\n")
    other = {**home, "AWS_DEFAULT_PROFILE": "other"}
    assert cloud_base_url("bedrock", "", other) == "https://bedrock-runtime.ap-south-1.amazonaws.com"


@pytest.mark.parametrize(
    ("address", "whole"),
    [
        # claude-agent-sdk-python 382: the address of a request, and of a resource
        ("https://r.services.ai.azure.com/anthropic/v1/messages", "https://r.services.ai.azure.com/anthropic"),
        ("https://r.services.ai.azure.com", "https://r.services.ai.azure.com/anthropic"),
        ("https://gateway.example/foundry", "https://gateway.example/foundry"),
    ],
)
def test_the_forms_of_foundrys_address(address: str, whole: str) -> None:
    assert cloud_base_url("foundry", address, {}) == whole


async def test_a_gateway_with_a_key_needs_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Claude Code's guide to gateways configures it: an address and a token (bolt.diy 1561)."""
    monkeypatch.delenv("AWS_REGION")
    with cloud(Cloud(bedrock(EVENTS), "application/vnd.amazon.eventstream")) as server:
        assert await ask("bedrock/m", {"AWS_BEARER_TOKEN_BEDROCK": "k"}, f"{server.url}/bedrock") == "Grüße ✓"
    assert server.requests[0][0] == "/bedrock/model/m/invoke-with-response-stream"


async def test_credentials_that_were_renewed_are_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """claude-code 23399: the session of an AWS profile expires, and is renewed beside the program."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "renewed")
    written = "[renewed]\naws_access_key_id = {}\naws_secret_access_key = s\naws_session_token = t\n"
    file.write_text(written.format("OLDKEY"))
    expired = json.dumps({"message": "The security token included in the request is expired"}).encode()
    with cloud(Cloud(expired, "application/json", 403)) as server:
        provider = await connect("bedrock/m", {"AWS_REGION": "eu-west-1"}, server.url)
        with pytest.raises(AuthFailed, match=r"Run `aws configure`, or set `AWS_BEARER_TOKEN_BEDROCK`"):
            await collect(provider, hello())
        file.write_text(written.format("NEWKEY"))
        server.status, server.media_type, server.body = 200, "application/vnd.amazon.eventstream", bedrock(EVENTS)
        assert (await last(provider, hello())).message.text == "Grüße ✓"
        await provider.close()
    signed = [headers["authorization"].partition("Credential=")[2][:6] for _, headers, _ in server.requests]
    assert signed == ["OLDKEY", "NEWKEY"]


async def test_a_damaged_frame_is_a_stream_that_broke_off() -> None:
    """bifrost 4545: text in place of a frame."""
    stream = bedrock(EVENTS[:3]) + b"upstream connect error or disconnect/reset before headers. reset reason: timeout"
    with cloud(Cloud(stream, "application/vnd.amazon.eventstream")) as server, pytest.raises(StreamCut):
        await ask("bedrock/m", {"AWS_BEARER_TOKEN_BEDROCK": "k"}, server.url)


@pytest.mark.parametrize(
    ("address", "environment", "model_address"),
    [
        ("https://n.openai.azure.com/", {}, "https://n.openai.azure.com/openai/v1"),
        ("https://n.openai.azure.com/openai/v1/", {}, "https://n.openai.azure.com/openai/v1"),
        (
            "https://n.openai.azure.com",
            {"OPENAI_API_VERSION": "2024-10-21"},
            "https://n.openai.azure.com/openai/deployments/mine?api-version=2024-10-21",
        ),
        (
            "https://n.openai.azure.com/openai/deployments/other?api-version=2024-10-21",
            {},
            "https://n.openai.azure.com/openai/deployments/other?api-version=2024-10-21",
        ),
        # Zoo-Code 1191: the name of the resource begins with `openai`
        ("https://openai-lance.openai.azure.com", {}, "https://openai-lance.openai.azure.com/openai/v1"),
        # inspect_ai 4192: versions of the newer API
        ("https://n.openai.azure.com", {"OPENAI_API_VERSION": "preview"}, "https://n.openai.azure.com/openai/v1"),
        # litellm 8572, codex 1628: the address of a request, as Azure's portal shows it
        (
            "https://n.openai.azure.com/openai/deployments/other/chat/completions?api-version=2024-10-21",
            {},
            "https://n.openai.azure.com/openai/deployments/other?api-version=2024-10-21",
        ),
        ("https://n.openai.azure.com/openai/v1/responses", {}, "https://n.openai.azure.com/openai/v1"),
        ("https://n.openai.azure.com/openai/deployments/other", {}, "https://n.openai.azure.com/openai/v1"),
    ],
)
def test_the_forms_of_azures_address(address: str, environment: dict[str, str], model_address: str) -> None:
    assert deployment_base_url(cloud_base_url("azure", address, environment), "mine") == model_address


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("azure", "AZURE_OPENAI_ENDPOINT"),
        ("bedrock", "AWS_REGION"),
        ("foundry", "ANTHROPIC_FOUNDRY_RESOURCE"),
        ("vertex", "ANTHROPIC_VERTEX_PROJECT_ID"),
    ],
)
def test_a_missing_variable_is_named(name: str, variable: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"for {name}: set `{variable}`"):
        cloud_base_url(name, "", {"HOME": str(tmp_path)})


async def test_bedrock_with_an_api_key() -> None:
    with cloud(Cloud(bedrock(EVENTS), "application/vnd.amazon.eventstream")) as server:
        environment = {"AWS_BEARER_TOKEN_BEDROCK": "the-key", "AWS_REGION": "eu-west-1"}
        model = "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
        assert await ask(model, environment, server.url) == "Grüße ✓"
    path, headers, body = server.requests[0]
    assert path == "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke-with-response-stream"
    assert headers["authorization"] == "Bearer the-key"
    assert "anthropic_version" in body
    assert {"model", "stream"}.isdisjoint(body)


async def test_requests_to_bedrock_are_signed_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with cloud(Cloud(bedrock(EVENTS), "application/vnd.amazon.eventstream")) as server:
        environment = {"AWS_REGION": "eu-west-1"}
        assert await ask("bedrock/anthropic.claude-sonnet-5-5", environment, server.url) == "Grüße ✓"
    signature = server.requests[0][1]["authorization"]
    assert signature.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request" in signature


async def test_without_aws_credentials_the_error_says_how_to_sign_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-west-1")  # sessions are cached by region
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        cloud(Cloud(b"")) as server,
        pytest.raises(AuthFailed, match=r"no credentials for bedrock/m: .*Run `aws configure`, or set `AWS_BEARER"),
    ):
        await ask("bedrock/m", {"AWS_REGION": "us-west-1"}, server.url)


@pytest.mark.parametrize(
    ("exception", "message", "kind"),
    [
        ("throttlingException", "Too many requests, please wait before trying again.", RateLimited),
        ("validationException", "Input is too long for requested model.", ContextOverflow),
        ("modelStreamErrorException", "The model failed.", ProviderError),
    ],
)
async def test_an_exception_in_bedrocks_stream_is_an_error(
    exception: str, message: str, kind: type[ProviderError]
) -> None:
    frame = aws_frame(
        {":message-type": "exception", ":exception-type": exception}, json.dumps({"message": message}).encode()
    )
    stream = bedrock(EVENTS[:3]) + frame
    with cloud(Cloud(stream, "application/vnd.amazon.eventstream")) as server, pytest.raises(kind):
        await ask("bedrock/m", {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "eu-west-1"}, server.url)


async def test_a_stream_of_bedrock_that_breaks_off_is_no_answer() -> None:
    stream = bedrock(EVENTS)[:-40]
    with cloud(Cloud(stream[: len(bedrock(EVENTS[:4])) + 9], "application/vnd.amazon.eventstream")) as server:
        provider = await connect("bedrock/m", {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "eu-west-1"}, server.url)
        with pytest.raises(StreamCut):
            await collect(provider, hello())
        await provider.close()


async def test_bedrock_refuses_a_request_that_is_too_long() -> None:
    body = json.dumps({"message": "Input is too long for requested model."}).encode()
    with cloud(Cloud(body, "application/json", 400)) as server, pytest.raises(ContextOverflow):
        await ask("bedrock/m", {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "eu-west-1"}, server.url)


async def test_vertex_has_the_project_and_location_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class SignedIn:
        """Credentials as google-auth has them after `gcloud auth application-default login`."""

        token: str = "the-token"
        expired: bool = False

        def refresh(self, request: object) -> None:
            """The token stays valid."""

    monkeypatch.setattr(pytest.importorskip("google.auth"), "default", lambda *args, **kwargs: (SignedIn(), "p"))
    with cloud(Cloud(sse(EVENTS))) as server:
        environment = {"ANTHROPIC_VERTEX_PROJECT_ID": "p", "CLOUD_ML_REGION": "us-east5"}
        assert await ask("vertex/claude-sonnet-4-5@20250929", environment, f"{server.url}/v1") == "Grüße ✓"
    path, headers, body = server.requests[0]
    assert path == (
        "/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict"
    )
    assert headers["authorization"] == "Bearer the-token"
    assert "anthropic_version" in body
    assert "model" not in body


async def test_without_google_credentials_the_error_says_how_to_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    google = pytest.importorskip("google.auth")
    exceptions = pytest.importorskip("google.auth.exceptions")

    def missing(*args: object, **kwargs: object) -> None:
        raise exceptions.DefaultCredentialsError("Your default credentials were not found.\nMore.")

    monkeypatch.setattr(google, "default", missing)
    with (
        cloud(Cloud(b"")) as server,
        pytest.raises(AuthFailed, match=r"were not found\. Run `gcloud auth application-default login`\."),
    ):
        await ask("vertex/m", {"ANTHROPIC_VERTEX_PROJECT_ID": "p"}, f"{server.url}/v1")


async def test_foundry_gets_the_key_in_both_headers() -> None:
    with cloud(Cloud(sse(EVENTS))) as server:
        environment = {"ANTHROPIC_FOUNDRY_API_KEY": "the-key"}
        assert await ask("foundry/claude-sonnet-4-5", environment, f"{server.url}/anthropic") == "Grüße ✓"
    path, headers, body = server.requests[0]
    assert (path, headers["x-api-key"], headers["api-key"], body["model"]) == (
        "/anthropic/v1/messages",
        "the-key",
        "the-key",
        "claude-sonnet-4-5",
    )


@pytest.mark.parametrize(
    ("model", "version", "path", "events"),
    [
        ("azure/gpt-6-sol", "", "/openai/v1/responses", RESPONSES),
        ("azure/prod-GPT-6", "", "/openai/v1/responses", RESPONSES),  # bolna 882: a name of the user's own
        ("azure/mistral-large", "", "/openai/v1/chat/completions", CHAT),
        (
            "azure/gpt-6-sol",
            "2024-10-21",
            "/openai/deployments/gpt-6-sol/chat/completions?api-version=2024-10-21",
            CHAT,
        ),
    ],
)
@pytest.mark.parametrize("library", ["http", "sdk"])
async def test_azure_gets_its_key_in_its_own_header(
    model: str,
    version: str,
    path: str,
    events: tuple[dict[str, Any], ...],
    library: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with cloud(Cloud(sse(events))) as server:
        environment = {"AZURE_OPENAI_ENDPOINT": server.url}
        if library == "http":
            environment["AZURE_OPENAI_API_KEY"] = "the-key"
        else:

            async def token() -> str:
                return "the-token"

            monkeypatch.setattr(clouds, "_azure_token_getter", lambda endpoint: token)
        if version:
            environment["OPENAI_API_VERSION"] = version
        assert await ask(model, environment) == "Grüße ✓"
    asked, headers, body = server.requests[0]
    assert (asked, body["model"]) == (path, model.partition("/")[2])
    assert headers.get("api-key", headers.get("authorization")) == (
        "the-key" if library == "http" else "Bearer the-token"
    )


async def test_any_response_shows_that_a_cloud_can_be_reached() -> None:
    """hermes-agent 21785: without a key there is no request that is free, and a refusal is no broken setup."""
    with cloud(Cloud(b"", status=401)) as server:
        reached = await check_server("vertex", Endpoint(server.url))
    assert reached.status == 501  # the server knows no GET


async def test_the_sdk_is_used_with_a_key_where_it_is_set() -> None:
    with cloud(Cloud(sse(EVENTS))) as server:
        settings = ProviderConfig(base_url=f"{server.url}/anthropic", wire="sdk")
        config = replace(CONFIG, providers={"foundry": settings})
        provider = await build_provider(config, "foundry/m", {"ANTHROPIC_FOUNDRY_API_KEY": "the-key"})
        assert (await last(provider, hello())).message.text == "Grüße ✓"
        await provider.close()
    assert server.requests[0][1]["user-agent"].startswith("AsyncAnthropicFoundry")


async def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clouds, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"`bedrock/…` needs additional packages: install them with `.*boto3"):
        await connect("bedrock/m", {"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": "k"})
    with pytest.raises(UsageError, match=r"`azure/…` without a key needs packages: .*azure-identity"):
        await connect("azure/m", {"AZURE_OPENAI_ENDPOINT": "https://n.openai.azure.com"})


@pytest.mark.parametrize(
    ("address", "scope", "authority"),
    [
        ("https://n.openai.azure.com", "https://cognitiveservices.azure.com/.default", None),
        ("https://n.openai.azure.us", "https://cognitiveservices.azure.us/.default", "login.microsoftonline.us"),
        ("https://n.openai.azure.cn", "https://cognitiveservices.azure.cn/.default", "login.chinacloudapi.cn"),
        ("https://gateway.example.us", "https://cognitiveservices.azure.com/.default", None),
        ("https://openai.azure.us.example.org", "https://cognitiveservices.azure.com/.default", None),
    ],
)
async def test_each_of_azures_clouds_has_its_own_scope(
    monkeypatch: pytest.MonkeyPatch, address: str, scope: str, authority: str | None
) -> None:
    """openai-go 534: a token for the public cloud is refused (\"audience is incorrect\")."""
    identity = pytest.importorskip("azure.identity")
    made: list[dict[str, str]] = []
    monkeypatch.delenv("AZURE_AUTHORITY_HOST", raising=False)
    monkeypatch.setattr(identity, "DefaultAzureCredential", lambda **given: made.append(given))
    monkeypatch.setattr(identity, "get_bearer_token_provider", lambda credential, scope: lambda: scope)
    assert await clouds._azure_token_getter(Endpoint(f"{address}/openai/v1"))() == scope
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "login.example.org")
    assert await clouds._azure_token_getter(Endpoint(f"{address}/openai/v1"))() == scope
    assert made == [{"authority": authority} if authority else {}, {}]


@pytest.mark.parametrize("suffix", ["com", "us", "cn"])
def test_azures_other_clouds_have_the_same_paths(suffix: str) -> None:
    root = f"https://n.openai.azure.{suffix}"
    assert cloud_base_url("azure", root, {}) == f"{root}/openai/v1"
    assert cloud_base_url("foundry", f"https://n.services.ai.azure.{suffix}", {}).endswith("/anthropic")


GATEWAYS = [
    ("bedrock", "/bedrock", bedrock(EVENTS), {"CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1"}),
    (
        "vertex",
        "/vertex_ai/v1",
        sse(EVENTS),
        {"CLAUDE_CODE_SKIP_VERTEX_AUTH": "true", "ANTHROPIC_VERTEX_PROJECT_ID": "p"},
    ),
    ("foundry", "/anthropic", sse(EVENTS), {"CLAUDE_CODE_SKIP_FOUNDRY_AUTH": "1"}),
]
"""Gateways as code.claude.com/docs/en/llm-gateway describes them."""


@pytest.mark.parametrize(("name", "path", "body", "environment"), GATEWAYS)
@pytest.mark.parametrize("token", ["", "gateway-token"])
async def test_a_gateway_signs_in_to_the_cloud(
    monkeypatch: pytest.MonkeyPatch, name: str, path: str, body: bytes, environment: dict[str, str], token: str
) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(variable, raising=False)
    with cloud(Cloud(body)) as server:
        given = {**environment, f"ANTHROPIC_{name.upper()}_BASE_URL": f"{server.url}{path}"}
        given |= {"ANTHROPIC_AUTH_TOKEN": token} if token else {}
        assert await ask(f"{name}/m", given) == "Grüße ✓"
    asked, headers, _ = server.requests[0]
    assert asked.startswith(path)
    assert headers.get("authorization") == (f"Bearer {token}" if token else None)
    assert not any(header.startswith("x-amz") for header in headers)


@pytest.mark.parametrize(("name", "path", "body", "environment"), GATEWAYS)
async def test_a_gateway_that_rejects_the_request(
    name: str, path: str, body: bytes, environment: dict[str, str]
) -> None:
    with (
        cloud(Cloud(b'{"error": {"message": "no token"}}', "application/json", 401)) as server,
        pytest.raises(AuthFailed) as caught,
    ):
        await ask(f"{name}/m", environment, f"{server.url}{path}")
    if name != "foundry":
        variable = f"CLAUDE_CODE_SKIP_{name.upper()}_AUTH"
        assert f"Set `ANTHROPIC_AUTH_TOKEN` to the gateway's token, or unset `{variable}`." in str(caught.value)


@pytest.mark.parametrize("value", ["0", "false", "", " "])
def test_a_gateway_needs_an_address_and_a_yes(value: str) -> None:
    assert not uses_gateway("bedrock", {"CLAUDE_CODE_SKIP_BEDROCK_AUTH": value}, has_address=False)
    assert not uses_gateway("azure", {"CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1"}, has_address=False)
    with pytest.raises(ConfigError, match=r"no gateway: set `ANTHROPIC_BEDROCK_BASE_URL` to its address"):
        uses_gateway("bedrock", {"CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1"}, has_address=False)
