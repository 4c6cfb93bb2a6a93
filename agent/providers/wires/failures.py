"""Converts a server's error response into a `ProviderError` with a message. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit, urlunsplit

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
from ebbtide.agent.providers.wires.error_answers import ErrorAnswer, read_body, sanitise_message, wait_in
from ebbtide.agent.providers.wires.error_rules import Meaning, meaning_of
from ebbtide.agent.providers.wires.overflow_errors import numbers_in
from ebbtide.tools.secrets.redaction import without_password


def classify(
    status: int,
    headers: Mapping[str, str],
    body: object,
    provider: str,
    key: str | None = None,
    now: float | None = None,
) -> ProviderError:
    """The error for a server's response. `provider` is `provider/name`; `body` is bytes, text or parsed JSON; `now` is
    in Unix seconds.

    With status 200, the body is an error instead of a reply, or a frame in the middle of a stream."""
    said = read_body(body, key)
    # A gateway may forward an error with a status of its own.
    effective = said.status or status if status in (200, 400, 500) else status
    shown = None if status == 200 and said.status is None else effective
    lowered = {name.lower(): value for name, value in headers.items()}
    meaning = meaning_of(effective, lowered, said)
    if meaning.kind is ContextOverflow:
        return _overflow(provider, said, shown)
    place = sanitise_message(_place(lowered.get("location", "")), key, longest=200)
    happened, todo = _sentences(meaning, provider, sanitise_message(said.message, key), effective, place)
    wait = retry_after(lowered, said.text, now)
    return meaning.kind(happened, status=shown, retry_after=wait, cause=meaning.cause, todo=todo)


def _overflow(provider: str, said: ErrorAnswer, status: int | None) -> ContextOverflow:
    size, limit = said.size, said.limit
    if size is None and limit is None:
        size, limit = numbers_in(said.text)
    counted = f" ({size:,} tokens)" if size else ""
    allowed = f" ({limit:,} tokens)" if limit else ""
    return ContextOverflow(
        f"the request{counted} is larger than {provider} accepts{allowed}",
        status=status,
        size=size,
        limit=limit,
    )


_BY_CAUSE: Mapping[str, tuple[str, str]] = {
    "proxy": ("a proxy rejected the request to {model} ({status})", "Check the proxy variable, such as `HTTPS_PROXY`."),
    "portal": ("a web page responded instead of {model}", "Log in to the network, or check `base_url`."),
    "tls": ("the server of {model} requires TLS", "Write `https://` in `base_url`."),
    "challenge": (
        "a page that blocks programs responded instead of {model} ({status})",
        "Try another network, or check `base_url`.",
    ),
    "country": ("{model} is not available in your country", "Use another model."),
    "organisation": ("an organisation policy forbids {model} ({status})", "Ask its administrator."),
    "content": ("{model} declined this content", "Rephrase the message."),
    "spending_limit": ("the spending limit for {model} is reached", "Raise it, or use another model."),
    "access": ("the key has no access to {model} ({status})", "Check the key's permissions and `base_url`."),
    "tools": ("{model} does not support tools, which are required", "Use another model."),
    "retired": ("{model} is no longer available", "Use another model."),
}
"""What happened and what to do, for causes that say more than the kind."""

_BY_KIND: Mapping[type[ProviderError], tuple[str, str]] = {
    AuthFailed: ("{model} rejected the API key", "Check the key and its permissions."),
    UnknownModel: ("the server does not know {model}", "Check the model's name and `base_url`."),
    QuotaExceeded: ("the account for {model} has no credit left", "Add credit, or use another model."),
    RateLimited: ("too many requests to {model}", "Wait, then try again."),
    ImageRejected: ("{model} rejected an image in the request ({status})", "Scale it down or convert it."),
}
_OTHERWISE = ("{model} rejected the request ({status})", "Change the request or the model's settings.")


def _sentences(meaning: Meaning, provider: str, message: str, status: int, place: str) -> tuple[str, str]:
    """What happened, with the server's message, and what to do. `place`: the target of a redirect."""
    if 300 <= status < 400:
        return f"the server of {provider} redirects to `{place}`.", "Set `base_url` to the server's address."
    if meaning.cause not in _BY_CAUSE and meaning.kind is Overloaded:
        when = "in the middle of its reply" if status == 200 else "({status})"
        happened, todo = f"the server of {{model}} failed {when}", "Try again later."
    else:
        happened, todo = _BY_CAUSE.get(meaning.cause) or _BY_KIND.get(meaning.kind, _OTHERWISE)
    detail = f": {message}" if message else ""
    end = "" if detail.endswith((".", "!", "?", "…")) else "."
    return f"{happened.format(model=provider, status=status)}{detail}{end}", todo


def _place(location: str) -> str:
    """The target of a redirect, without names, passwords and tokens."""
    try:
        parts = urlsplit(without_password(location))
    except ValueError:
        return "elsewhere"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", "")) or "elsewhere"


def retry_after(headers: Mapping[str, str], text: str = "", now: float | None = None) -> float | None:
    """The delay that the server requests, in seconds. `headers` have lower-case names."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        # More digits are a date in seconds, or invalid. Some servers add the unit, and a proxy may add its own delay.
        found = re.match(
            r"([0-9]{1,9}(?:\.[0-9]+)?)(?: ?s(?:ec(?:ond)?s?)?)?(?:, |$)", headers.get(name, "").strip(), re.I
        )
        if found:
            return float(found[1]) / scale
    then, here = _moment(headers.get("retry-after")), _moment(headers.get("date"))
    # Use the server's clock if it sends one, so that an error in ours does not matter.
    if then is not None and (since := here if here is not None else now) is not None:
        return max(then - since, 0.0)
    return wait_in(text)  # no valid date; the text may contain the delay


def _moment(date: str | None) -> float | None:
    """Unix seconds; None if it is not a date."""
    try:
        found = parsedate_to_datetime(date or "")
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
