"""Extracts what a server's error response says, in any format. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.tools.outputs.extent import ellipsize

LONGEST_MESSAGE = 500
LONGEST_BODY = 256 * 1024
"""Characters of a body that are read."""
LONGEST_WAIT = 1e9
SHORTEST_KEY = 8
"""A shorter key is a placeholder such as `none`: it is not secret, and may be part of any word."""

MESSAGE_FIELDS = (
    "message", "error", "detail", "msg", "raw", "error_description", "status_msg", "error_message", "error_msg",
    "err_msg", "title",
    "description", "reason", "errors",
)  # fmt: skip
KIND_FIELDS = ("code", "type", "status", "error_type", "error_code", "reason", "__type", "errorcode", "error")

_URL = r"https?://\S+"
_SECRET = r"\b(?:(?:sk|pk|rk|xai|gsk)[-_]|AIza)[A-Za-z0-9*_-]*[0-9*][A-Za-z0-9*_-]{5,}"
_BEARER = r"(?i)\b(bearer|basic)(\s+|%20)(?=[\w.~+/=-]*[\d=])[\w.~+/=-]{8,}"
_UNSEEN = r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+"
_WAIT = (
    r"(?i)(?:try again|retry|wait|available)(?: again)?(?: after| in| for)? "
    r"(?P<span>(?:\d+(?:\.\d+)? ?(?:hours?|hrs?|h|minutes?|mins?|milliseconds?|ms|m|seconds?|secs?|s)(?![a-z]),? ?)+)"
)
_PAGE = r"(?is)\s*(?:<!--(?:(?!-->).)*-->\s*)*(?:<!doctype html|<html|<head|<\?xml[^>]*>\s*<!doctype html)"


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What was found in an error response."""

    kinds: tuple[str, ...]
    """The server's names for the error, in lower case with `_` between words."""
    message: str
    """A message for people, on one line."""
    text: str
    """All text that may contain a clue, including nested errors, without URLs."""
    status: int | None = None
    """A status inside the body."""
    size: int | None = None
    limit: int | None = None
    is_page: bool = False
    """Whether the body is a web page."""


def read_body(body: object, key: str | None = None) -> ErrorAnswer:
    """Parse an error body. The key is removed from it."""
    parsed = _parse_body(body)
    is_page, page = False, ""
    if isinstance(parsed, str):
        is_page, page = bool(re.match(_PAGE, parsed)), parsed
        title = re.search(r"<title>(.*?)</title>", parsed, re.I | re.S)
        parsed = {"message": title[1] if title else re.sub(r"<[^>]*>", " ", parsed)}
    fields: dict[str, list[Any]] = {}
    for name, value in _walk(parsed):
        fields.setdefault(name.lower(), []).append(value)
    texts = [value for name in MESSAGE_FIELDS for value in fields.get(name, ()) if isinstance(value, str)]
    texts += [re.sub(r"(?s)<style.*?</style>|<script.*?</script>|<[^>]*>", " ", page)] if is_page else []
    delays = [f"retry in {value}" for value in fields.get("retrydelay", ()) if isinstance(value, str)]
    numbers = [value for name in ("code", "status") for value in fields.get(name, ()) if _is_status(value)]
    kinds = (_kind(value) for name in KIND_FIELDS for value in fields.get(name, ()))
    return ErrorAnswer(
        kinds=tuple(kind for kind in kinds if kind),
        message=sanitise_message(texts[0] if texts else "", key),
        text=re.sub(_URL, "", sanitise_message(" | ".join([*texts, *delays]), key, longest=20_000)),
        status=int(numbers[0]) if numbers else None,
        size=next((value for value in fields.get("n_prompt_tokens", ()) if isinstance(value, int)), None),
        limit=next((value for value in fields.get("n_ctx", ()) if isinstance(value, int)), None),
        is_page=is_page,
    )


def sanitise_message(text: str, key: str | None = None, longest: int = LONGEST_MESSAGE) -> str:
    """A server's text on one line, shortened, without control characters and keys."""
    if key and len(key) >= SHORTEST_KEY:
        text = re.sub(re.escape(key), "***", text, flags=re.I)
    text = re.sub(_BEARER, r"\1\2***", text)
    return ellipsize(" ".join(re.sub(_UNSEEN, " ", re.sub(_SECRET, "***", text)).split()), longest)


def wait_in(text: str) -> float | None:
    """Seconds after which a text says that a retry may succeed."""
    found = re.search(_WAIT, text)
    if found is None:
        return None
    pieces = re.findall(r"(\d+(?:\.\d+)?) ?([a-z]+)", found["span"].lower())
    seconds = sum(float(number) * _seconds(unit) for number, unit in pieces)
    return seconds if seconds < LONGEST_WAIT else None


def _seconds(unit: str) -> float:
    if unit.startswith("h"):
        return 3600.0
    if unit.startswith(("ms", "milli")):
        return 0.001
    return 60.0 if unit.startswith("m") else 1.0


def _kind(value: object) -> str:
    """Normalise an error name such as `ThrottlingException`, `exceed-context` or `model.not found`; empty for a
    sentence."""
    if not isinstance(value, str) or not 2 < len(value) < 80 or value.count(" ") > 2:
        return ""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", value.rpartition("#")[2])
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def _is_status(value: object) -> bool:
    number = value if isinstance(value, int) else int(value) if isinstance(value, str) and value.isdecimal() else 0
    return 400 <= number < 600


def _parse_body(body: object) -> object:
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    body = body.removeprefix("\ufeff")[:LONGEST_BODY]
    text = body.strip().removeprefix("data:").lstrip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return body


def _walk(value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield every field with a plain value, outer ones first, including JSON inside text."""
    if depth > 6:
        return
    if isinstance(value, list):
        for item in value[:20]:
            yield from [("message", item)] if isinstance(item, str) else _walk(item, depth + 1)
    if not isinstance(value, Mapping):
        return
    for name, item in value.items():
        if isinstance(item, str | int):
            yield str(name), item
    for item in value.values():
        nested = _inner(item) if isinstance(item, str) else item
        if isinstance(nested, dict | list):
            yield from _walk(nested, depth + 1)


def _inner(text: str) -> object:
    """Parse the JSON object in a text, as in the messages that gateways forward."""
    begin = text.find("{")
    return _parse_body(text[begin : text.rfind("}") + 1]) if begin >= 0 else text
