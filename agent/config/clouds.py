"""Providers with a sign-in of their own: clouds, whose addresses are built from the environment variables that their
own tools use, and subscriptions."""

import os
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from ebbtide.agent.errors import ConfigError
from ebbtide.tools.lazy import regex


class Cloud(NamedTuple):
    """A cloud provider. `extra` names the optional packages that its sign-in needs."""

    base_url_variable: str
    key_variable: str
    extra: str
    modules: tuple[str, ...]
    """Modules of these packages."""
    needs_extra: bool
    """Whether the packages are required even with a key."""
    sign_in: str
    """How a user signs in without a key."""
    gateway_variable: str = ""
    """Claude Code's environment variable for a gateway. If it is set, the gateway at the configured address signs in to
    the cloud."""


CLOUDS: Mapping[str, Cloud] = {
    "azure": Cloud("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "azure", ("azure.identity",), False, "az login"),
    "bedrock": Cloud(
        "ANTHROPIC_BEDROCK_BASE_URL", "AWS_BEARER_TOKEN_BEDROCK", "bedrock", ("boto3", "botocore"), True,
        "aws configure", "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    ),
    "foundry": Cloud(
        "ANTHROPIC_FOUNDRY_BASE_URL", "ANTHROPIC_FOUNDRY_API_KEY", "azure", ("azure.identity",), False, "az login",
        "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
    ),
    "vertex": Cloud(
        "ANTHROPIC_VERTEX_BASE_URL", "", "vertex", ("google.auth", "requests"), True,
        "gcloud auth application-default login", "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    ),
}  # fmt: skip
"""Addresses, keys and packages of each cloud. The environment variables are those that Anthropic's and OpenAI's SDKs
read. `vertex` has no keys."""

GATEWAY_KEY_VARIABLE = "ANTHROPIC_AUTH_TOKEN"
"""The variable with the token for a gateway, as in Claude Code (code.claude.com/docs/en/llm-gateway)."""
AZURE_DOMAINS = ("azure.com", "azure.us", "azure.cn")
"""Azure's domains: the public cloud, the US government's cloud, and 21Vianet's cloud in China."""

_VERTEX_HOSTS = {"global": "aiplatform", "us": "aiplatform.us.rep", "eu": "aiplatform.eu.rep"}
"""Vertex AI's hosts for locations other than single regions, without the suffix `.googleapis.com`."""
_PROJECT_PATH = regex(r"/projects/[^/]+/locations/[^/]+$")
_DEPLOYMENT_PATH = regex(r"/openai(?:/deployments/[^/?]+)?$")
_REQUEST_PATH = regex(r"/(?:chat/completions|completions|responses|v1/messages)$")
"""The request path at the end of an address."""
_AZURE_SUFFIXES = tuple(f".{domain}" for domain in AZURE_DOMAINS)
_DATED = regex(r"\d{4}-\d{2}-\d{2}")


def cloud_base_url(name: str, address: str, environment: Mapping[str, str]) -> str:
    """Return the address of a cloud's API. `address`: the configured address; empty for the cloud's default. Raises
    `ConfigError` if a variable is missing."""
    address = address.rstrip("/")
    match name:
        case "azure":
            return _azure_base_url(address, environment)
        case "bedrock":
            return address or f"https://bedrock-runtime.{_aws_region(environment)}.amazonaws.com"
        case "foundry":
            return _foundry_base_url(address, environment)
        case _:
            return _vertex_base_url(address, environment)


def uses_gateway(name: str, environment: Mapping[str, str], *, has_address: bool) -> bool:
    """Whether a gateway signs in to the cloud. `has_address`: an address is configured. If a gateway is to be used
    without one, raises `ConfigError`, because the cloud itself would reject unsigned requests."""
    variable = CLOUDS[name].gateway_variable
    if environment.get(variable, "").strip().lower() not in ("1", "true", "yes", "on"):
        return False
    if not has_address:
        raise ConfigError(f"{variable} is set, but no gateway: set `{CLOUDS[name].base_url_variable}` to its address")
    return True


def azure_domain(host: str) -> str:
    """Return the Azure domain that a host belongs to, or the public cloud's domain for any other host."""
    return next((domain for domain in AZURE_DOMAINS if host.endswith(f".{domain}")), AZURE_DOMAINS[0])


def _azure_base_url(address: str, environment: Mapping[str, str]) -> str:
    """Return the address of Azure's newer API, or of its older API if `OPENAI_API_VERSION` is a date. The full address
    of a request, as shown in Azure's portal, is also accepted."""
    if not address:
        raise ConfigError("no address for azure: set `AZURE_OPENAI_ENDPOINT`, such as `https://NAME.openai.azure.com`")
    split_url = urlsplit(address)
    path = _REQUEST_PATH.sub("", split_url.path.rstrip("/"))
    root = f"{split_url.scheme}://{split_url.netloc}{path}"
    version = dict(parse_qsl(split_url.query)).get("api-version") or environment.get("OPENAI_API_VERSION", "").strip()
    if "openai" not in path.split("/"):
        root = f"{root}/openai"
    elif path.endswith("/v1"):
        return root
    if not _DATED.match(version):  # `v1`, `preview` and `latest` are versions of the newer API
        return f"{_DEPLOYMENT_PATH.sub('/openai', root)}/v1"
    return f"{root}?api-version={version}"


def _foundry_base_url(address: str, environment: Mapping[str, str]) -> str:
    resource = environment.get("ANTHROPIC_FOUNDRY_RESOURCE", "").strip().partition(".")[0]
    if not address and not resource:
        raise ConfigError("no resource for foundry: set `ANTHROPIC_FOUNDRY_RESOURCE` to its name")
    root = _REQUEST_PATH.sub("", address) or f"https://{resource}.services.ai.azure.com"
    split_url = urlsplit(root)
    lacks_path = not split_url.path.strip("/") and (split_url.hostname or "").endswith(_AZURE_SUFFIXES)
    return f"{root}/anthropic" if lacks_path else root


def deployment_base_url(address: str, model: str) -> str:
    """Add a model's deployment to the path of an address, as Azure's older API requires."""
    root, question, query = address.partition("?")
    if not question or "/deployments/" in root:
        return address
    return f"{root.rstrip('/')}/deployments/{model}?{query}"


def _vertex_base_url(address: str, environment: Mapping[str, str]) -> str:
    if _PROJECT_PATH.search(address):
        return address
    project = _first_set_variable(environment, "ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
    if not project:
        raise ConfigError("no project for vertex: set `ANTHROPIC_VERTEX_PROJECT_ID` to its id")
    region = _first_set_variable(environment, "CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION") or "global"
    host = _VERTEX_HOSTS.get(region, f"{region}-aiplatform")
    root = address or f"https://{host}.googleapis.com/v1"
    return f"{root}/projects/{project}/locations/{region}"


def _aws_region(environment: Mapping[str, str]) -> str:
    """Return the region from the environment or from the user's AWS profile. Raises `ConfigError` if there is none."""
    if region := _first_set_variable(environment, "AWS_REGION", "AWS_DEFAULT_REGION"):
        return region
    profile = _first_set_variable(environment, "AWS_PROFILE", "AWS_DEFAULT_PROFILE") or "default"
    folder = os.path.join(environment.get("HOME", "~"), ".aws")
    for variable, name in (("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")):
        if region := _profile_region(environment.get(variable) or os.path.join(folder, name), profile):
            return region
    raise ConfigError("no region for bedrock: set `AWS_REGION`, such as `us-east-1`")


def _profile_region(path: str, profile: str) -> str:
    """Return the region of a profile in one of AWS's files; empty if there is none."""
    import configparser  # noqa: PLC0415  # deferred: only Bedrock without a region in the environment needs it

    config = configparser.RawConfigParser()
    try:
        config.read(os.path.expanduser(path), encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return ""
    for section in config.sections():
        name = section.removeprefix("profile").strip().strip("\"'") if section.startswith("profile ") else section
        if name == profile and (region := config.get(section, "region", fallback="").strip()):
            return region
    return ""


def _first_set_variable(environment: Mapping[str, str], *names: str) -> str:
    return next((value for name in names if (value := environment.get(name, "").strip())), "")


class Subscription(NamedTuple):
    """A provider's API address, and how users get access to the API."""

    title: str
    """The subscription's name, as the provider writes it."""
    base_url: str
    key_variable: str
    """The environment variable that contains a key; empty if the provider has no keys."""
    sign_in_url: str
    """Default address of the sign-in server."""
    client_id: str
    """The client id that the provider has published for other programs' sign-in; empty if each program needs its
    own."""


SUBSCRIPTIONS: Mapping[str, Subscription] = {
    "copilot": Subscription(
        "GitHub Copilot", "https://api.githubcopilot.com", "COPILOT_GITHUB_TOKEN", "https://github.com", ""
    ),
    "chatgpt": Subscription(
        "ChatGPT", "https://api.openai.com/v1", "", "https://auth.openai.com", "dynamic_agent_client"
    ),
}
"""The variable for GitHub is the one that Copilot CLI reads (docs.github.com, "Authenticating Copilot CLI"). The client
id for OpenAI is used to register a program (developers.openai.com/siwc/token-sharing-open-source/sign-in)."""
