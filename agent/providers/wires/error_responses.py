"""Extracts the information in a server's error response, whatever its format."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ebbtide.agent.providers.wires.http import unzip_document
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize

MAX_MESSAGE_CHARS = 500
MAX_BODY_CHARS = 256 * 1024
"""Maximum number of characters read from a body."""
MAX_WAIT_SECONDS = 1e9
MIN_KEY_CHARS = 8
"""Minimum length of a key that is removed from messages, in characters. A shorter key is a placeholder such as `none`;
it is not secret and might occur in any text."""

MESSAGE_FIELDS = (
    "message", "error", "detail", "msg", "raw", "error_description", "status_msg", "error_message", "error_msg",
    "err_msg", "title",
    "description", "reason", "errors",
)  # fmt: skip
KIND_FIELDS = ("code", "type", "status", "error_type", "error_code", "reason", "__type", "errorcode", "error")

_URL_PATTERN = r"https?://\S+"
_SECRET_PATTERN = r"\b(?:(?:sk|pk|rk|xai|gsk)[-_]|AIza)[A-Za-z0-9*_-]*[0-9*][A-Za-z0-9*_-]{5,}"
_BEARER = r"(?i)\b(bearer|basic)(\s+|%20)(?=[\w.~+/=-]*[\d=])[\w.~+/=-]{8,}"
_INVISIBLE = r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+"
_RETRY_AFTER = (
    r"(?i)(?:try again|retry|wait|available)(?: again)?(?: after| in| for)? "
    r"(?P<span>(?:\d+(?:\.\d+)? ?(?:hours?|hrs?|h|minutes?|mins?|milliseconds?|ms|m|seconds?|secs?|s)(?![a-z]),? ?)+)"
)
_WEB_PAGE = r"(?is)\s*(?:<!--(?:(?!-->).)*-->\s*)*(?:<!doctype html|<html|<head|<\?xml[^>]*>\s*<!doctype html)"


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The information found in an error response."""

    error_names: tuple[str, ...]
    """The server's names for the error, in lower case, with `_` between words."""
    message: str
    """The server's message, on one line, for display."""
    text: str
    """All text that may help to classify the error, including nested errors. URLs are removed."""
    status: int | None = None
    """HTTP status stated in the body."""
    request_tokens: int | None = None
    limit_tokens: int | None = None
    is_web_page: bool = False
    """Whether the body is a web page."""


def parse_error_body(body: object, key: str | None = None) -> ErrorResponse:
    """Parse the body of an error response. `key`: the API key, which is removed from all text."""
    parsed = _parse_body(body)
    is_page, page = False, ""
    if isinstance(parsed, str):
        is_page, page = bool(re.match(_WEB_PAGE, parsed)), parsed
        title = re.search(r"<title>(.*?)</title>", parsed, re.I | re.S)
        parsed = {"message": title[1] if title else re.sub(r"<[^>]*>", " ", parsed)}
    fields: dict[str, list[Any]] = {}
    for name, value in _plain_fields(parsed):
        fields.setdefault(name.lower(), []).append(value)
    texts = [value for name in MESSAGE_FIELDS for value in fields.get(name, ()) if isinstance(value, str)]
    texts += [re.sub(r"(?s)<style.*?</style>|<script.*?</script>|<[^>]*>", " ", page)] if is_page else []
    delays = [f"retry in {value}" for value in fields.get("retrydelay", ()) if isinstance(value, str)]
    statuses = [value for name in ("code", "status") for value in fields.get(name, ()) if _is_status(value)]
    kinds = (_normalised_kind(value) for name in KIND_FIELDS for value in fields.get(name, ()))
    return ErrorResponse(
        error_names=tuple(kind for kind in kinds if kind),
        message=sanitise_message(texts[0] if texts else "", key),
        text=re.sub(_URL_PATTERN, "", sanitise_message(" | ".join([*texts, *delays]), key, max_chars=20_000)),
        status=int(statuses[0]) if statuses else None,
        request_tokens=next((value for value in fields.get("n_prompt_tokens", ()) if isinstance(value, int)), None),
        limit_tokens=next((value for value in fields.get("n_ctx", ()) if isinstance(value, int)), None),
        is_web_page=is_page,
    )


def sanitise_message(text: str, key: str | None = None, max_chars: int = MAX_MESSAGE_CHARS) -> str:
    """Format a server's text for display: on one line, shortened, without control characters or keys."""
    if key and len(key) >= MIN_KEY_CHARS:
        text = re.sub(re.escape(key), "***", text, flags=re.I)
    text = re.sub(_BEARER, r"\1\2***", text)
    return ellipsize(" ".join(re.sub(_INVISIBLE, " ", re.sub(_SECRET_PATTERN, "***", text)).split()), max_chars)


def parse_retry_delay(text: str) -> float | None:
    """Parse the retry delay stated in text, in seconds. None if the text states no delay."""
    match = re.search(_RETRY_AFTER, text)
    if match is None:
        return None
    pieces = re.findall(r"(\d+(?:\.\d+)?) ?([a-z]+)", match["span"].lower())
    seconds = sum(float(number) * _unit_seconds(unit) for number, unit in pieces)
    return seconds if seconds < MAX_WAIT_SECONDS else None


def _unit_seconds(unit: str) -> float:
    if unit.startswith("h"):
        return 3600.0
    if unit.startswith(("ms", "milli")):
        return 0.001
    return 60.0 if unit.startswith("m") else 1.0


def _normalised_kind(value: object) -> str:
    """Normalise an error name such as `ThrottlingException`, `exceed-context` or `model.not found`. Return an empty
    string if the value is a sentence."""
    if not isinstance(value, str) or not 2 < len(value) < 80 or value.count(" ") > 2:
        return ""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", value.rpartition("#")[2])
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def _is_status(value: object) -> bool:
    status = value if isinstance(value, int) else int(value) if isinstance(value, str) and value.isdecimal() else 0
    return 400 <= status < 600


def _parse_body(body: object) -> object:
    if isinstance(body, bytes):
        body = unzip_document(body, 4 * MAX_BODY_CHARS).decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    body = body.removeprefix("\ufeff")[:MAX_BODY_CHARS]
    text = body.strip().removeprefix("data:").lstrip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return body


def _plain_fields(value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield all fields whose value is a string or an integer, outer fields first. Fields of JSON embedded in text are
    included."""
    if depth > 6:
        return
    if isinstance(value, list):
        for item in value[:20]:
            yield from [("message", item)] if isinstance(item, str) else _plain_fields(item, depth + 1)
    if not isinstance(value, Mapping):
        return
    for name, item in value.items():
        if isinstance(item, str | int):
            yield str(name), item
    for item in value.values():
        nested = _embedded_json(item) if isinstance(item, str) else item
        if isinstance(nested, dict | list):
            yield from _plain_fields(nested, depth + 1)


def _embedded_json(text: str) -> object:
    """Parse the JSON object embedded in text, as in messages that gateways forward."""
    start = text.find("{")
    return _parse_body(text[start : text.rfind("}") + 1]) if start >= 0 else text
