"""What a server's error means, as one of our errors. Pure; knows the words of many servers and no network.

An error is recognised by the status, by the `type` and `code` in the body, and by the text only where nothing else
tells: most servers say in text alone that a request is too large.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from agent.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    UnknownModel,
)

LONGEST_MESSAGE = 500
SHORTEST_KEY = 8
"""A shorter one is a stand-in such as `none`, which is no secret and may be part of any word."""

KINDS: dict[str, type[ProviderError]] = {
    "authentication_error": AuthFailed,
    "invalid_api_key": AuthFailed,
    "permission_error": AuthFailed,
    "unauthenticated": AuthFailed,
    "permission_denied": AuthFailed,
    "model_not_found": UnknownModel,
    "not_found_error": UnknownModel,
    "insufficient_quota": QuotaExceeded,
    "billing_error": QuotaExceeded,
    "billing_hard_limit_reached": QuotaExceeded,
    "billing_not_active": QuotaExceeded,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "resource_exhausted": RateLimited,
    "too_many_requests": RateLimited,
    "overloaded_error": Overloaded,
    "server_is_overloaded": Overloaded,
    "slow_down": Overloaded,
    "api_error": Overloaded,
    "server_error": Overloaded,
    "internal_server_error": Overloaded,
    "timeout_error": Overloaded,
    "unavailable": Overloaded,
    "context_length_exceeded": ContextOverflow,
    "context_window_exceeded": ContextOverflow,
    "model_context_window_exceeded": ContextOverflow,
    "exceed_context_size_error": ContextOverflow,
    "request_too_large": ContextOverflow,
}
"""Values of `type`, `code` or `status`, in lower case."""

STATUSES: dict[int, type[ProviderError]] = {
    401: AuthFailed,
    402: QuotaExceeded,
    403: AuthFailed,
    404: UnknownModel,
    408: Overloaded,
    409: Overloaded,
    413: ContextOverflow,
    429: RateLimited,
}

# The expressions are texts: `re` compiles each when it is first used and keeps it, and most runs meet no error at all.
_N = r"[\d][\d,]*"
_SIZE, _LIMIT = rf"(?P<size>{_N})", rf"(?P<limit>{_N})"

OVERFLOWS = tuple(
    f"(?is){pattern}"
    for pattern in (
        # With the numbers, so that they are found first.
        rf"prompt is too long: {_SIZE} tokens > {_LIMIT} maximum",
        rf"prompt is too long: {_SIZE}, model maximum context length: {_LIMIT}",
        rf"exceed context limit: {_SIZE}[ +\d]* > {_LIMIT}",
        rf"maximum context length (?:is|of) {_LIMIT} tokens.{{1,60}}?{_SIZE} (?:input )?tokens",
        rf"input token count \({_SIZE}\) exceeds the maximum number of tokens allowed \({_LIMIT}\)",
        rf"maximum prompt length is {_LIMIT} but the request contains {_SIZE} tokens",
        rf"request \({_SIZE} tokens\) exceeds the available context size \({_LIMIT} tokens\)",
        rf"prompt token count of {_SIZE} exceeds the limit of {_LIMIT}",
        rf"exceeded model token limit: {_LIMIT} \(requested: {_SIZE}\)",
        rf"prompt contains {_SIZE} tokens.{{0,80}}?too large for model with {_LIMIT} maximum context length",
        rf"prompt \(length {_SIZE}\) is longer than the maximum model length of {_LIMIT}",
        rf"input \({_SIZE} tokens\) is longer than the model's context length \({_LIMIT} tokens\)",
        rf"tokens in the prompt cannot exceed {_LIMIT} - received {_SIZE}",
        rf"`inputs` tokens \+ `max_new_tokens` must be <= {_LIMIT}\. given: {_SIZE} `inputs` tokens",
        rf"first {_SIZE} tokens when context.{{1,80}}?context length of only {_LIMIT} tokens",
        rf"current length is {_SIZE} while limit is {_LIMIT}",
        rf"range of input length should be \[1, {_LIMIT}\]",
        # In words alone.
        r"(?:prompt|input) is too long",
        r"(?:exceeds?|exceeded|larger than|longer than|greater than) (?:the |its |this |max )*(?:model'?s? )?"
        r"(?:maximum |available )?(?:context|prompt) (?:window|length|size)",
        r"(?:context window|context length) (?:exceeds|exceeded)",
        r"(?:exceed|too large for).{0,40}maximum (?:context|prompt|model) length",
        r"maximum context length is .{1,12} tokens\. however,? you requested",
        r"prompt token count of .{1,12} exceeds the limit",
        r"exceeded model token limit",
        r"too large for model with .{1,12} maximum context length",
        r"prompt exceeds max length",
        r"reduce the length of the (?:messages|prompt|input)",
        r"context_length_exceeded|model_context_window_exceeded|ContextWindowExceeded",
        r"^4(?:00|13) status code \(no body\)$",
    )
)

_URL = r"https?://\S+"
_RATE = r"(?i)rate.?limit|tokens per (?:min|day|hour)|requests per (?:min|day|hour)|too many requests"
_QUOTA = (
    r"(?i)credit balance|billing|insufficient (?:account )?(?:credits?|balance|funds|quota)|(?:out of|no|more) credits"
    r"|exceeded your current quota|payment required"
)
_SOON = r"(?i)(?:try again|retry) in (?:(?P<minutes>\d+)m)?(?P<seconds>\d+(?:\.\d+)?)(?P<unit>ms|s)"
_OUR_FAULT = r"invalid_|unsupported_|bad_request|\w*(?:image|policy)"
"""Kinds of errors in a stream that another try would not mend."""
_OVERLOADED = r"(?i)overloaded|(?:at|over) capacity|temporarily unavailable"
_SECRET = r"\b(?:(?:sk|pk|rk|xai|gsk)[-_]|AIza)[A-Za-z0-9*_-]*[0-9*][A-Za-z0-9*_-]{5,}"
_UNSEEN = r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+"


@dataclass(frozen=True, slots=True)
class Said:
    """What could be read of an error answer."""

    kinds: tuple[str, ...]
    message: str
    """For a person, on one line."""
    text: str
    """All that may hold a clue, nested errors included, without addresses."""
    status: int | None = None
    """A status inside the body."""
    size: int | None = None
    limit: int | None = None


def classify(
    status: int, headers: Mapping[str, str], body: object, provider: str, key: str | None = None
) -> ProviderError:
    """The error that a server's answer stands for. `provider` is `provider/name`; `body` is bytes, text or parsed JSON.

    With status 200 the body is an error frame in the middle of a stream.
    """
    said = read_body(body, key)
    effective = said.status or status if status == 200 else status
    shown = None if status == 200 and said.status is None else effective
    kind = _kind(effective, said)
    if kind is ContextOverflow:
        return _overflow(provider, said, shown)
    lowered = {name.lower(): value for name, value in headers.items()}
    wait = retry_after(lowered, said.text)
    return kind(_sentence(kind, provider, said.message, effective, lowered), status=shown, retry_after=wait)


def _kind(status: int, said: Said) -> type[ProviderError]:
    found = next((KINDS[kind] for kind in said.kinds if kind in KINDS), None)
    if found is QuotaExceeded or status == 402:
        return QuotaExceeded
    if status in (429, 400, 403) and re.search(_QUOTA, said.text) and not re.search(_SOON, said.text):
        return RateLimited if re.search(_RATE, said.text) else QuotaExceeded
    if status == 429 or (found is RateLimited and status != 413):
        return RateLimited
    if status == 413 or found is ContextOverflow or (status not in (401, 403) and _says_overflow(said.text)):
        return ContextOverflow
    if status in STATUSES:
        return STATUSES[status]
    if status >= 500:
        return Overloaded
    if found is not None:
        return found
    if status == 200 and not any(re.match(_OUR_FAULT, kind) for kind in said.kinds):
        # The server took the request and failed at it, which is what 5xx says before a stream.
        return RateLimited if re.search(_RATE, said.text) else Overloaded
    return Overloaded if re.search(_OVERLOADED, said.text) else BadRequest


def _says_overflow(text: str) -> bool:
    return not re.search(_RATE, text) and any(re.search(pattern, text) for pattern in OVERFLOWS)


def _overflow(provider: str, said: Said, status: int | None) -> ContextOverflow:
    size, limit = said.size, said.limit
    for pattern in OVERFLOWS:
        found = re.search(pattern, said.text)
        if found and size is None and limit is None:
            numbers = found.groupdict()
            size, limit = _number(numbers.get("size")), _number(numbers.get("limit"))
    counted = f" ({size:,} tokens)" if size else ""
    allowed = f" ({limit:,} tokens)" if limit else ""
    return ContextOverflow(
        f"the request{counted} is larger than {provider} takes{allowed}",
        status=status,
        size=size,
        limit=limit,
    )


def _sentence(kind: type[ProviderError], provider: str, message: str, status: int, headers: Mapping[str, str]) -> str:
    detail = f": {message}" if message else ""
    end = "" if detail.endswith((".", "!", "?")) else "."
    if kind is AuthFailed:
        return f"{provider} does not accept the key{detail}{end} Check the API key and what it may use."
    if kind is UnknownModel:
        return f"{provider} is not known to the server{detail}{end} Check the model's name and `base_url`."
    if kind is QuotaExceeded:
        return f"the account for {provider} has no credit left{detail}{end} Add credit, or use another model."
    if kind is RateLimited:
        return f"too many requests to {provider}{detail}{end} Wait, then try again."
    if kind is Overloaded:
        when = "in the middle of its answer" if status == 200 else f"({status})"
        return f"the server of {provider} failed {when}{detail}{end} Try again in a while."
    if 300 <= status < 400:
        where = re.sub(_UNSEEN, " ", headers.get("location", "elsewhere"))[:200]
        return f"the server of {provider} redirects to `{where}`. Set `base_url` to where the server is."
    return f"{provider} refuses the request ({status}){detail}{end} Change the request or the model's settings."


def retry_after(headers: Mapping[str, str], text: str = "") -> float | None:
    """Seconds that the server asks us to wait. `headers` have names in lower case."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) / scale
    try:
        # The server's own clock, so that ours does not matter.
        wait = parsedate_to_datetime(headers["retry-after"]) - parsedate_to_datetime(headers["date"])
        return max(wait.total_seconds(), 0.0)
    except (KeyError, TypeError, ValueError):
        pass  # no date, or none that can be read: perhaps the text says it
    if soon := re.search(_SOON, text):
        seconds = float(soon["seconds"]) / (1000 if soon["unit"].lower() == "ms" else 1)
        return int(soon["minutes"] or 0) * 60 + seconds
    return None


def read_body(body: object, key: str | None = None) -> Said:
    """What an error body says, in whatever shape it comes."""
    parsed = _parsed(body)
    if isinstance(parsed, str):
        title = re.search(r"<title>(.*?)</title>", parsed, re.I | re.S)
        parsed = {"message": title[1] if title else re.sub(r"<[^>]*>", " ", parsed)}
    fields: dict[str, list[Any]] = {}
    for name, value in _walk(parsed):
        fields.setdefault(name, []).append(value)
    texts = [value for name in MESSAGE_FIELDS for value in fields.get(name, ()) if isinstance(value, str)]
    numbers = [value for value in fields.get("code", ()) if isinstance(value, int) and 400 <= value < 600]
    return Said(
        kinds=tuple(str(value).lower() for name in ("code", "type", "status") for value in fields.get(name, ())),
        message=tidy(texts[0] if texts else "", key),
        text=re.sub(_URL, "", tidy(" | ".join(texts), key, longest=20_000)),
        status=numbers[0] if numbers else None,
        size=next((value for value in fields.get("n_prompt_tokens", ()) if isinstance(value, int)), None),
        limit=next((value for value in fields.get("n_ctx", ()) if isinstance(value, int)), None),
    )


MESSAGE_FIELDS = ("message", "error", "detail", "msg", "raw", "error_description")


def tidy(text: str, key: str | None = None, longest: int = LONGEST_MESSAGE) -> str:
    """A server's text on one line, without control characters and keys, and not long."""
    if key and len(key) >= SHORTEST_KEY:
        text = text.replace(key, "***")
    line = " ".join(re.sub(_UNSEEN, " ", re.sub(_SECRET, "***", text)).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _parsed(body: object) -> object:
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def _walk(value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Every field with a plain value, outer ones first; JSON inside of text is read too."""
    if depth > 6:
        return
    if isinstance(value, list):
        for item in value[:20]:
            yield from _walk(item, depth + 1)
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        if isinstance(item, str | int):
            yield str(name), item
    for item in value.values():
        nested = _parsed(item) if isinstance(item, str) and item.lstrip().startswith("{") else item
        if isinstance(nested, dict | list):
            yield from _walk(nested, depth + 1)


def _number(text: str | None) -> int | None:
    return int(text.replace(",", "")) if text else None
