"""Adapters for Anthropic's and OpenAI's models at cloud providers. The clouds differ in their addresses and sign-in,
and Bedrock also in the framing of the stream. Bedrock and Vertex AI always use the SDK, which finds the cloud's
credentials and signs requests. Azure uses the SDK only if no key is set."""

import base64
import binascii
import json
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ebbtide.agent.config.clouds import CLOUDS, GATEWAY_KEY_VARIABLE, azure_domain, deployment_base_url
from ebbtide.agent.errors import AuthFailed, ProviderError, Unreachable, UsageError
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.daemon_thread import run_in_daemon_thread
from ebbtide.agent.providers.wires import anthropic, openai_chat, openai_responses
from ebbtide.agent.providers.wires.adapter import Adapter, WireName
from ebbtide.agent.providers.wires.error_responses import sanitise_message
from ebbtide.agent.providers.wires.http import EventReader, JsonObject, SseReader, open_httpx_client
from ebbtide.agent.providers.wires.origin import Origin, stream_cut_error
from ebbtide.agent.providers.wires.sdk import SdkWire, create_openai_client
from ebbtide.tools.process.install_command import install_command

if TYPE_CHECKING:
    import anthropic as anthropic_sdk
    import openai

_AZURE_AUTHORITIES = {"azure.us": "login.microsoftonline.us", "azure.cn": "login.chinacloudapi.cn"}
"""Sign-in hosts of Azure's other clouds, as in `azure.identity.AzureAuthorityHosts`."""
_VERTEX_BASE_URL = re.compile(r"(?P<root>.+)/projects/(?P<project>[^/]+)/locations/(?P<region>[^/]+)$")
_OPENAI_MODEL = re.compile(r"(?i)(?:^|[-_./])(?:gpt-?[5-9]|o[134](?![a-z0-9])|codex|computer-use)")
"""Matches models that OpenAI serves through its Responses API. The model's name may be part of a deployment's name."""
_SIGN_IN_PACKAGES = ("botocore", "google.auth", "azure")
"""Packages that raise sign-in errors."""
_NETWORK_ERRORS = ("EndpointConnectionError", "ConnectTimeoutError", "TransportError", "ServiceRequestError")
"""Exceptions raised by sign-in packages when the sign-in server cannot be reached."""
_UNUSED_REGION = "us-east-1"


def cloud_adapter(name: str, model: str, endpoint: Endpoint, wire: WireName) -> tuple[Adapter, Endpoint, WireName]:
    """Choose the adapter, endpoint and wire for a model at a cloud provider. The wire is `wire`, unless the sign-in
    needs the SDK. Raises `UsageError` if packages are missing."""
    cloud = CLOUDS[name]
    needs_sign_in = cloud.needs_extra or not (endpoint.key or endpoint.is_gateway)
    if needs_sign_in and not all(map(_is_installed, cloud.modules)):
        problem = (
            f"`{name}/…` needs additional packages" if cloud.needs_extra else f"`{name}/…` without a key needs packages"
        )
        raise UsageError(f"{problem}: install them with `{install_command(cloud.extra)}`")
    match name:
        case "bedrock":
            return _BEDROCK if not _is_mantle(endpoint) else _MANTLE, endpoint, "sdk"
        case "vertex":
            return _VERTEX_AI, endpoint, "sdk"
        case "foundry":
            return _FOUNDRY, endpoint, "sdk" if needs_sign_in else wire
        case _:
            uses_older_api = "?" in endpoint.base_url
            adapter = _AZURE_CHAT if uses_older_api or not _OPENAI_MODEL.search(model) else _AZURE_RESPONSES
            endpoint = replace(endpoint, base_url=deployment_base_url(endpoint.base_url, model))
            return adapter, endpoint, "sdk" if needs_sign_in else wire


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _is_mantle(endpoint: Endpoint) -> bool:
    """Whether the address belongs to Bedrock's second API, which streams like Anthropic's own."""
    return (urlsplit(endpoint.base_url).hostname or "").startswith("bedrock-mantle.")


class BedrockReader:
    """Parses Bedrock's binary event stream into the JSON of Anthropic's events (AWS event stream encoding)."""

    def __init__(self) -> None:
        self._buffer = import_module("botocore.eventstream").EventStreamBuffer()

    def feed(self, chunk: bytes) -> Iterator[str]:
        self._buffer.add_data(chunk)
        for message in self._buffer:
            headers = {name: str(value) for name, value in message.headers.items()}
            if headers.get(":message-type") == "event":
                yield _event_text(message.payload)
            else:
                yield json.dumps(_stream_error(headers, message.payload))

    def close(self) -> Iterator[str]:
        return iter(())


def _event_text(payload: bytes) -> str:
    """Decode the event in a frame, where it is base64 inside JSON."""
    try:
        return base64.b64decode(json.loads(payload)["bytes"]).decode("utf-8", "replace")
    except (ValueError, KeyError, TypeError, binascii.Error):
        return payload.decode("utf-8", "replace")


def _stream_error(headers: dict[str, str], payload: bytes) -> dict[str, Any]:
    kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
    try:
        message = json.loads(payload).get("message")
    except (ValueError, AttributeError):
        message = None
    return {"type": "error", "error": {"type": kind, "message": message or headers.get(":error-message") or kind}}


def _create_bedrock_client(origin: Origin) -> "anthropic_sdk.AsyncAnthropicBedrock":
    import anthropic as sdk  # noqa: PLC0415 - deferred: 1.5 s that other providers do not need

    class Gateway(sdk.AsyncAnthropicBedrock):
        async def _prepare_request(self, request: object) -> None:
            """Do not sign the request."""

    create = Gateway if _is_unsigned(origin) else sdk.AsyncAnthropicBedrock
    client = create(aws_region=_region(origin), **_client_arguments(origin))
    client.api_key = origin.endpoint.key  # the SDK would use an empty variable as the key
    return client


def _create_mantle_client(origin: Origin) -> "anthropic_sdk.AsyncAnthropicBedrockMantle":
    import anthropic as sdk  # noqa: PLC0415 - deferred: 1.5 s that other providers do not need

    return sdk.AsyncAnthropicBedrockMantle(aws_region=_region(origin), **_client_arguments(origin))


def _region(origin: Origin) -> str | None:
    """Return the region in the host name; None if the SDK must take it from the environment. With a key or a
    gateway, nothing is signed, so any region works."""
    host = urlsplit(origin.endpoint.base_url).hostname or ""
    match = re.search(r"(?:^|\.)bedrock-[a-z]+(?:-fips)?\.([a-z0-9-]+)\.", host)
    return match[1] if match else _UNUSED_REGION if origin.endpoint.key or origin.endpoint.is_gateway else None


def _is_unsigned(origin: Origin) -> bool:
    """Whether requests are sent without key and signature, because a gateway signs them."""
    return origin.endpoint.is_gateway and not origin.endpoint.key


def _create_vertex_client(origin: Origin) -> "anthropic_sdk.AsyncAnthropicVertex":
    import anthropic as sdk  # noqa: PLC0415 - deferred: 1.5 s that other providers do not need

    match = _VERTEX_BASE_URL.match(origin.endpoint.base_url)
    if match is None:
        raise AuthFailed(f"the address of {origin.model} must end with `/projects/PROJECT/locations/REGION`.")
    arguments = _client_arguments(origin)
    token = arguments.pop("api_key")
    arguments |= {"base_url": match["root"], "access_token": token}

    class Gateway(sdk.AsyncAnthropicVertex):
        async def _prepare_request(self, request: object) -> None:
            """Do not sign in to Google."""

    create = Gateway if _is_unsigned(origin) else sdk.AsyncAnthropicVertex
    return create(region=match["region"], project_id=match["project"], **arguments)


def _create_foundry_client(origin: Origin) -> "anthropic_sdk.AsyncAnthropicFoundry":
    import anthropic as sdk  # noqa: PLC0415 - deferred: 1.5 s that other providers do not need

    arguments = _client_arguments(origin)
    if not arguments["api_key"]:
        arguments["azure_ad_token_provider"] = _azure_token_getter(origin.endpoint)
    return sdk.AsyncAnthropicFoundry(**arguments)


def _client_arguments(origin: Origin) -> dict[str, Any]:
    http_client = open_httpx_client(origin)
    return {
        "api_key": origin.endpoint.key,
        "base_url": origin.endpoint.base_url,
        "max_retries": 0,
        "timeout": http_client.timeout,
        "http_client": http_client,
    }


def _create_azure_client(origin: Origin) -> "openai.AsyncOpenAI":
    """Create the client for both of Azure's APIs, with the key in Azure's header or with the user's sign-in tokens."""
    return create_openai_client(
        origin, None if origin.endpoint.key else _azure_token_getter(origin.endpoint), _azure_headers(origin.endpoint)
    )


def _azure_token_getter(endpoint: Endpoint) -> Callable[[], Awaitable[str]]:
    """Return a function that requests a token for the signed-in user. It runs in a thread because the library blocks.
    Each of Azure's clouds has its own scope and sign-in host; `AZURE_AUTHORITY_HOST` overrides the host."""
    identity = import_module("azure.identity")
    domain = azure_domain(urlsplit(endpoint.base_url).hostname or "")
    authority = _AZURE_AUTHORITIES.get(domain) if not os.environ.get("AZURE_AUTHORITY_HOST") else None
    credential = identity.DefaultAzureCredential(**({"authority": authority} if authority else {}))
    scope = f"https://cognitiveservices.{domain}/.default"
    get_token: Callable[[], str] = identity.get_bearer_token_provider(credential, scope)
    return lambda: run_in_daemon_thread(get_token)


def _azure_headers(endpoint: Endpoint) -> dict[str, str]:
    return {"api-key": endpoint.key} if endpoint.key else {}


class CloudWire(SdkWire[Any]):
    """A wire that also explains cloud sign-in errors."""

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        try:
            async with aclosing(super().events(body)) as events:
                async for event in events:
                    yield event
        except ProviderError as error:
            if (explained := _explained_error(error, self._origin)) is None:
                raise
            raise explained from error


def _explained_error(error: ProviderError, origin: Origin) -> ProviderError | None:
    """Explain an error if the sign-in failed or was rejected. None for any other error."""
    cause = error.__cause__
    while cause is not None:
        if (sign_in_error := _sign_in_error(cause, origin)) is not None:
            return sign_in_error
        cause = cause.__cause__
    is_rejected = isinstance(error, AuthFailed) and error.status is not None and not origin.endpoint.key
    return _build_rejection_error(error, origin) if is_rejected else None


def _sign_in_error(error: BaseException, origin: Origin) -> ProviderError | None:
    """Convert an exception of a cloud's own library to a provider error. None for any other exception."""
    package, name = type(error).__module__, type(error).__name__
    reason = sanitise_message(str(error).partition("\n")[0], origin.endpoint.key).rstrip(".")
    if package.startswith("botocore.eventstream"):
        return stream_cut_error(origin)
    if package.startswith(_SIGN_IN_PACKAGES) and name in _NETWORK_ERRORS:
        return Unreachable(f"the {origin.model} sign-in server cannot be reached: {reason}. Try again.")
    if isinstance(error, ValueError) and "AWS region" in str(error):
        return AuthFailed(f"no region for {origin.model}. Set `AWS_REGION`, such as `us-east-1`.")
    is_missing = isinstance(error, RuntimeError) and "credentials" in str(error).lower()
    if not package.startswith(_SIGN_IN_PACKAGES) and not is_missing:
        return None
    return AuthFailed(f"no credentials for {origin.model}: {reason}. {_sign_in_advice(origin)}")


def _build_rejection_error(error: ProviderError, origin: Origin) -> AuthFailed:
    """Build the error for credentials that a cloud rejects. The next request reads the AWS credentials again: the SDK
    caches them for the whole process, but the user may have renewed them."""
    if origin.model.startswith("bedrock/"):
        session_cache = getattr(import_module("anthropic.lib.aws._auth"), "_get_session", None)
        if (clear_cache := getattr(session_cache, "cache_clear", None)) is not None:
            clear_cache()
    reason = str(error).partition(". ")[0].replace("rejected the API key", "rejected your credentials")
    return AuthFailed(f"{reason}. {_sign_in_advice(origin)}", status=error.status)


def _sign_in_advice(origin: Origin) -> str:
    cloud = CLOUDS[origin.model.partition("/")[0]]
    if origin.endpoint.is_gateway:
        return f"Set `{GATEWAY_KEY_VARIABLE}` to the gateway's token, or unset `{cloud.gateway_variable}`."
    variable = f", or set `{cloud.key_variable}`" if cloud.key_variable else ""
    return f"Run `{cloud.sign_in}`{variable}."


def _messages_wire_factory(
    create_client: Callable[[Origin], Any],
    modules: tuple[str, ...] = (),
    reader: Callable[[], EventReader] = SseReader,
) -> Callable[[Origin], CloudWire]:
    return lambda origin: CloudWire(
        "anthropic", origin, create_client, lambda client: client.messages, create_reader=reader, modules=modules
    )


_BEDROCK = replace(
    anthropic.ADAPTER,
    create_sdk_wire=_messages_wire_factory(_create_bedrock_client, ("botocore.eventstream", "boto3"), BedrockReader),
)
_MANTLE = replace(anthropic.ADAPTER, create_sdk_wire=_messages_wire_factory(_create_mantle_client, ("boto3",)))
_VERTEX_AI = replace(
    anthropic.ADAPTER,
    get_server_url=lambda endpoint: endpoint.base_url,
    create_sdk_wire=_messages_wire_factory(_create_vertex_client),
)
_FOUNDRY = replace(
    anthropic.ADAPTER,
    build_headers=lambda endpoint: {**anthropic.build_headers(endpoint), **_azure_headers(endpoint)},
    create_sdk_wire=_messages_wire_factory(_create_foundry_client),
)
_AZURE_CHAT = replace(
    openai_chat.ADAPTER,
    build_headers=_azure_headers,
    create_sdk_wire=lambda origin: CloudWire(
        "openai", origin, _create_azure_client, lambda client: client.chat.completions
    ),
)
_AZURE_RESPONSES = replace(
    openai_responses.ADAPTER,
    build_headers=_azure_headers,
    create_sdk_wire=lambda origin: CloudWire("openai", origin, _create_azure_client, lambda client: client.responses),
)
