"""How to sign in to each subscription."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ebbtide.agent.config.clouds import SUBSCRIPTIONS
from ebbtide.agent.config.private_table import PrivateTable
from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.errors import AuthFailed, ConfigError, ProviderError
from ebbtide.agent.integrations.sign_in.browser_flow import BrowserFlow, BrowserSignIn
from ebbtide.agent.integrations.sign_in.device_flow import DeviceCode, DeviceFlow
from ebbtide.agent.integrations.sign_in.stored_tokens import Tokens, read_tokens, tokens_from
from ebbtide.agent.integrations.sign_in.token_server import TokenResponse, check_address, get_json
from ebbtide.tools.outputs.plain_text import terminal_text

HOSTS_FILE_NAME = "sign-in-hosts.json"
MAX_CLOCK_DIFFERENCE_S = 300.0
"""Maximum difference between this machine's clock and the server's, in seconds, for tokens that expire."""
COPILOT_SCOPE = "read:user"
CHATGPT_SCOPE = "openid profile email offline_access resource.invoke chatgpt.tokens.use.direct"
CHATGPT_REQUIRED_SCOPE = "chatgpt.tokens.use.direct"
CHATGPT_RESOURCE = "https://api.openai.com/v1"
PROGRAM_NAME = "Ebbtide"
MAX_ACCOUNT_CHARS = 100


@dataclass(frozen=True, slots=True)
class SignedIn:
    """An account's tokens and name."""

    tokens: Tokens
    account: str


def copilot_flow(settings: ProviderConfig) -> DeviceFlow:
    """Return GitHub's device flow (docs.github.com, "Authorizing OAuth apps"). Raises `ConfigError`, for example if no
    client id is configured: GitHub has not published one that any program may use."""
    subscription = SUBSCRIPTIONS["copilot"]
    if not settings.client_id:
        raise ConfigError(
            "no program is registered with GitHub for you: set `providers.copilot.client_id` to the id of an OAuth app "
            "with device flow, or set COPILOT_GITHUB_TOKEN to a token with the permission Copilot Requests"
        )
    root = check_address(settings.sign_in_url or subscription.sign_in_url)
    return DeviceFlow(
        subscription.title,
        "copilot",
        f"{root}/login/device/code",
        f"{root}/login/oauth/access_token",
        settings.client_id,
        COPILOT_SCOPE,
    )


def sign_in_with_code(
    settings: ProviderConfig, show_code: Callable[[DeviceCode], None], wait: Callable[[float], None]
) -> SignedIn:
    """Sign in to GitHub. `show_code` shows the code to the user. Raises `AgentError`."""
    flow = copilot_flow(settings)
    code = flow.request_code()
    show_code(code)
    answer = flow.wait_for_tokens(code, wait)
    if answer.number("expires_in"):
        check_clock(answer)
    tokens = tokens_from(answer, flow.client_id, flow.token_url, "")
    return SignedIn(tokens, _github_account(flow.code_url, tokens))


def _github_account(code_url: str, tokens: Tokens) -> str:
    """Return the account's name; empty if GitHub does not provide it. The tokens work without a name."""
    try:
        return _account(get_json(github_user_url(code_url), tokens.access_token).text("login"))
    except ProviderError:
        return ""


def github_user_url(address: str) -> str:
    """Return the URL of GitHub's user API. It is on a separate host for github.com and data residency (ghe.com), and
    below a path on other servers."""
    split_url = urlsplit(address)
    host = split_url.netloc
    own_host = host == "github.com" or host.endswith(".ghe.com")
    return f"{split_url.scheme}://api.{host}/user" if own_host else f"{split_url.scheme}://{host}/api/v3/user"


def chatgpt_flow(settings: ProviderConfig, folder: Path) -> BrowserFlow:
    """Return the flow that OpenAI documents for open-source programs. The first sign-in registers this program for the
    account; later ones use the client id from that registration. Raises `AgentError`."""
    subscription = SUBSCRIPTIONS["chatgpt"]
    root = check_address(settings.sign_in_url or subscription.sign_in_url)
    registered_id = settings.client_id or _registered_id(folder)
    more_fields = {"ext_agent_host_id": host_id(folder)}
    return BrowserFlow(
        subscription.title,
        "chatgpt",
        f"{root}/api/accounts/authorize",
        f"{root}/api/accounts/oauth/token",
        root,
        registered_id or subscription.client_id,
        CHATGPT_SCOPE,
        CHATGPT_REQUIRED_SCOPE,
        CHATGPT_RESOURCE,
        more_fields if registered_id else {**more_fields, "agent_name_hint": PROGRAM_NAME},
        assigns_client_id=not registered_id,
    )


def _registered_id(folder: Path) -> str:
    try:
        tokens = read_tokens(folder, "chatgpt")
    except AuthFailed:  # a damaged sign-in is replaced
        return ""
    return tokens.client_id if tokens is not None else ""


def host_id(folder: Path) -> str:
    """Return the id of this installation. OpenAI asks programs to keep it even without a sign-in. Raises
    `ConfigError`."""
    table = PrivateTable(folder / HOSTS_FILE_NAME, "hosts")
    if not isinstance(table.read().get("chatgpt"), str):
        table.update(lambda hosts: {"chatgpt": f"urn:uuid:{uuid.uuid4()}", **hosts})
    return str(table.read()["chatgpt"])


def sign_in_with_browser(
    settings: ProviderConfig,
    folder: Path,
    show_page: Callable[[BrowserSignIn], None],
    wait: Callable[[BrowserSignIn, float], None],
) -> SignedIn:
    """Sign in to ChatGPT. `show_page`: shows the URL to the user. `wait`: waits for the browser or a pasted URL. Raises
    `AgentError`."""
    flow = chatgpt_flow(settings, folder)
    with BrowserSignIn(flow) as sign_in:
        show_page(sign_in)
        answer, client_id, claims = sign_in.wait_for_tokens(lambda seconds: wait(sign_in, seconds))
    check_clock(answer)
    tokens = tokens_from(answer, client_id, flow.token_url, flow.resource)
    return SignedIn(tokens, _account(str(claims.get("email") or claims.get("name") or "")))


def check_clock(answer: TokenResponse) -> None:
    """Raise `AuthFailed` if this machine's clock is too inaccurate to tell when tokens expire."""
    difference = answer.clock_difference_s
    if abs(difference) > MAX_CLOCK_DIFFERENCE_S:
        direction = "ahead" if difference > 0 else "behind"
        raise AuthFailed(
            f"the clock of this machine is {abs(difference) / 60:.0f} minutes {direction}. Set it, then sign in again."
        )


def _account(name: str) -> str:
    return " ".join(terminal_text(name).split())[:MAX_ACCOUNT_CHARS]
