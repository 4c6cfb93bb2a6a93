"""Converts a server's error response into a `ProviderError` with a message."""

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit, urlunsplit

from ebbtide.agent.config.clouds import SUBSCRIPTIONS
from ebbtide.agent.errors import (
    AuthFailed,
    ContextOverflow,
    ImageRejected,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    UnknownModel,
)
from ebbtide.agent.providers.wires.error_responses import (
    ErrorResponse,
    parse_error_body,
    parse_retry_delay,
    sanitise_message,
)
from ebbtide.agent.providers.wires.error_rules import ErrorClass, classify_response
from ebbtide.agent.providers.wires.overflow_errors import parse_size_and_limit
from ebbtide.tools.secrets.redaction import redact_url


def classify_error(
    status: int,
    headers: Mapping[str, str],
    body: object,
    model: str,
    key: str | None = None,
    now: float | None = None,
) -> ProviderError:
    """Convert a server's response to an error. `model`: `provider/name`. `body`: bytes, text or parsed JSON. `now`:
    Unix seconds.

    Status 200 means that the error was sent in place of a reply, or in the middle of a stream.
    """
    answer = parse_error_body(body, key)
    # A gateway may use one of these statuses when it forwards an error, so the status in the body takes precedence.
    effective_status = answer.status or status if status in (200, 400, 500) else status
    status_code = None if status == 200 and answer.status is None else effective_status
    lowered = {name.lower(): value for name, value in headers.items()}
    meaning, provider = classify_response(effective_status, lowered, answer), model.partition("/")[0]
    if meaning in (ErrorClass(AuthFailed), ErrorClass(AuthFailed, "access")) and provider in SUBSCRIPTIONS:
        meaning = ErrorClass(AuthFailed, "plan" if meaning.cause or effective_status == 403 else "sign_in")
    if meaning.error_type is ContextOverflow:
        return _overflow_error(model, answer, status_code)
    redirect_target = sanitise_message(_safe_redirect_target(lowered.get("location", "")), key, max_chars=200)
    description, todo = _describe_error(
        meaning, model, sanitise_message(answer.message, key), effective_status, redirect_target
    )
    retry_delay = retry_after(lowered, answer.text, now)
    todo = todo.replace("{provider}", provider)
    return meaning.error_type(description, status=status_code, retry_after=retry_delay, cause=meaning.cause, todo=todo)


def _overflow_error(model: str, answer: ErrorResponse, status: int | None) -> ContextOverflow:
    size, limit = answer.request_tokens, answer.limit_tokens
    if size is None and limit is None:
        size, limit = parse_size_and_limit(answer.text)
    size_text = f" ({size:,} tokens)" if size else ""
    limit_text = f" ({limit:,} tokens)" if limit else ""
    return ContextOverflow(
        f"the request{size_text} is larger than {model} accepts{limit_text}",
        status=status,
        size=size,
        limit=limit,
    )


_TEXTS_BY_CAUSE: Mapping[str, tuple[str, str]] = {
    "proxy": ("a proxy rejected the request to {model} ({status})", "Check the proxy variable, such as `HTTPS_PROXY`."),
    "portal": ("a web page responded instead of {model}", "Log in to the network, or check `base_url`."),
    "tls": ("the {model} server requires TLS", "Write `https://` in `base_url`."),
    "challenge": (
        "a page that blocks programs responded instead of {model} ({status})",
        "Try another network, or check `base_url`.",
    ),
    "country": ("{model} is not available in your country", "Use another model."),
    "organisation": ("an organisation policy forbids {model} ({status})", "Ask its administrator."),
    "content": ("{model} declined this content", "Rephrase the message."),
    "spending_limit": ("the spending limit for {model} is reached", "Raise it, or use another model."),
    "sign_in": ("{model} rejected the sign-in", "Run `ebb key sign-in {provider}` again."),
    "plan": ("your plan has no access to {model} ({status})", "Check the plan, or use another model."),
    "access": ("the key has no access to {model} ({status})", "Check the key's permissions and `base_url`."),
    "tools": ("{model} does not support tools, which are required", "Use another model."),
    "retired": ("{model} is no longer available", "Use another model."),
}
"""What happened and what to do, for causes that are more specific than the kind of error."""

_TEXTS_BY_KIND: Mapping[type[ProviderError], tuple[str, str]] = {
    AuthFailed: ("{model} rejected the API key", "Check the key and its permissions."),
    UnknownModel: ("the server does not know {model}", "Check the model's name and `base_url`."),
    QuotaExceeded: ("the account for {model} has no credit left", "Add credit, or use another model."),
    RateLimited: ("too many requests to {model}", "Wait, then try again."),
    ImageRejected: ("{model} rejected an image in the request ({status})", "Scale it down or convert it."),
}
_DEFAULT_TEXTS = ("{model} rejected the request ({status})", "Change the request or the model's settings.")


def _describe_error(
    meaning: ErrorClass, model: str, message: str, status: int, redirect_target: str
) -> tuple[str, str]:
    """Return what happened, including the server's message, and what to do. `redirect_target`: the target of a
    redirect."""
    if 300 <= status < 400:
        return f"the {model} server redirects to `{redirect_target}`.", "Set `base_url` to the server's address."
    if meaning.cause not in _TEXTS_BY_CAUSE and meaning.error_type is Overloaded:
        when = "in the middle of its reply" if status == 200 else "({status})"
        description, todo = f"the {{model}} server failed {when}", "Try again later."
    else:
        description, todo = _TEXTS_BY_CAUSE.get(meaning.cause) or _TEXTS_BY_KIND.get(meaning.error_type, _DEFAULT_TEXTS)
    detail = f": {message}" if message else ""
    full_stop = "" if detail.endswith((".", "!", "?", "…")) else "."
    return f"{description.format(model=model, status=status)}{detail}{full_stop}", todo


def _safe_redirect_target(location: str) -> str:
    """Return a redirect's target without user names, passwords and tokens."""
    try:
        split_url = urlsplit(redact_url(location))
    except ValueError:
        return "elsewhere"
    host = split_url.netloc.rpartition("@")[2]
    return urlunsplit((split_url.scheme, host, split_url.path, "", "")) or "elsewhere"


def retry_after(headers: Mapping[str, str], text: str = "", now: float | None = None) -> float | None:
    """Return the delay that the server requests before a retry, in seconds; None if it requests none. The names in
    `headers` are in lower case."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        # A longer number is a date in seconds, or invalid. Some servers add a unit, and proxies may append a delay of
        # their own.
        match = re.match(
            r"([0-9]{1,9}(?:\.[0-9]+)?)(?: ?s(?:ec(?:ond)?s?)?)?(?:, |$)", headers.get(name, "").strip(), re.I
        )
        if match:
            return float(match[1]) / scale
    retry_date, server_date = _unix_seconds(headers.get("retry-after")), _unix_seconds(headers.get("date"))
    # If the server sends its own time, use that, so that a wrong local clock does not matter.
    if retry_date is not None and (current_time := server_date if server_date is not None else now) is not None:
        return max(retry_date - current_time, 0.0)
    return parse_retry_delay(text)  # without a valid date, the text may state the delay


def _unix_seconds(date: str | None) -> float | None:
    """Parse a date as Unix seconds. None if the text is not a date."""
    try:
        parsed = parsedate_to_datetime(date or "")
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
