"""Sign-in with a code that the user enters on a web page, on any device (RFC 8628)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.agent.errors import AuthFailed, RouteFailed, Unreachable
from ebbtide.agent.integrations.sign_in.token_server import TokenResponse, is_sendable, post_form, refusal_error
from ebbtide.tools.outputs.plain_text import terminal_text

DEFAULT_INTERVAL_S = 5.0
SLOW_DOWN_S = 5.0
"""Seconds that a `slow_down` error adds to the polling interval (section 3.5)."""
MAX_INTERVAL_S = 60.0
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The code for the user to enter, with its lifetime and the polling interval."""

    user_code: str
    page: str
    page_with_code: str
    """The page's address with the code filled in, if the server provides one; otherwise the plain address."""
    device_code: str
    lifetime_s: float
    interval_s: float


@dataclass(frozen=True, slots=True)
class DeviceFlow:
    """A server's endpoints, and this program's client id there."""

    title: str
    """The subscription's name."""
    provider: str
    code_url: str
    token_url: str
    client_id: str
    scope: str

    def request_code(self) -> DeviceCode:
        """Request a code. Raises `AgentError`."""
        answer = post_form(self.code_url, {"client_id": self.client_id, "scope": self.scope})
        code, page = _line(answer, "user_code"), _line(answer, "verification_uri") or _line(answer, "verification_url")
        if answer.error or not (code and page.startswith(("https://", "http://")) and answer.text("device_code")):
            raise self._refusal(answer)
        page_with_code = _line(answer, "verification_uri_complete")
        return DeviceCode(
            code,
            page,
            page_with_code if page_with_code.startswith(("https://", "http://")) else page,
            answer.text("device_code"),
            answer.number("expires_in") or 900.0,
            max(answer.number("interval"), 1.0) if answer.number("interval") else DEFAULT_INTERVAL_S,
        )

    def wait_for_tokens(
        self, code: DeviceCode, wait: Callable[[float], None], now: Callable[[], float] = time.monotonic
    ) -> TokenResponse:
        """Poll the server until the user allows or denies access. `now`: a monotonic clock. While the server cannot be
        reached, the interval doubles (section 3.5). Raises `AgentError`."""
        end, interval = now() + code.lifetime_s, code.interval_s
        while True:
            wait(max(min(interval, end - now()), 0.0))
            if now() >= end:
                raise self._expired()
            try:
                answer = post_form(
                    self.token_url,
                    {"client_id": self.client_id, "device_code": code.device_code, "grant_type": _GRANT},
                )
            except Unreachable as error:
                if isinstance(error, RouteFailed) or now() + interval >= end:
                    raise
                interval = min(2 * interval, MAX_INTERVAL_S)
                continue
            match answer.error:
                case "" if is_sendable(answer.text("access_token")):
                    return answer
                case "authorization_pending":
                    continue
                case "slow_down":
                    interval = max(answer.number("interval"), interval + SLOW_DOWN_S)
                case "expired_token":
                    raise self._expired()
                case "access_denied":
                    raise AuthFailed(f"you denied access to {self.title}. Nothing was stored.")
                case _:
                    raise self._refusal(answer)

    def _expired(self) -> AuthFailed:
        return AuthFailed(f"the code has expired. Run `ebb key sign-in {self.provider}` again.")

    def _refusal(self, answer: TokenResponse) -> AuthFailed:
        setting = f"`providers.{self.provider}.client_id`"
        match answer.error:
            case "device_flow_disabled" | "unauthorized_client":
                return AuthFailed(
                    f"the program registered as `{self.client_id}` may not sign in with a code. Enable the device flow "
                    f"in its settings, or change {setting}."
                )
            case "invalid_client" | "incorrect_client_credentials" | "Not Found":
                return AuthFailed(f"{self.title} does not know the id `{self.client_id}`. Check {setting}.")
            case _:
                return refusal_error(self.title, answer)


def _line(answer: TokenResponse, name: str) -> str:
    return " ".join(terminal_text(answer.text(name)).split())
