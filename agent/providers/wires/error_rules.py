"""Rules that classify a server's error response by its status and the name that the server gives the error. The message
is used only as a last resort."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ebbtide.agent.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ImageRejected,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    RouteFailed,
    UnknownModel,
)
from ebbtide.agent.providers.wires import error_patterns as words
from ebbtide.agent.providers.wires.error_responses import ErrorResponse, parse_retry_delay
from ebbtide.agent.providers.wires.overflow_errors import exceeds_rate_limit, is_overflow


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """The kind of an error, and its cause if known."""

    error_type: type[ProviderError]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """Classifies error responses. A response matches if its status is among `statuses`, and its error name or its text
    matches the pattern."""

    meaning: ErrorClass
    statuses: Collection[int] = ()
    """Statuses of matching responses; empty matches any status."""
    name_pattern: str = ""
    """Pattern that must match an entire error name."""
    text_pattern: str = ""

    def matches(self, status: int, answer: ErrorResponse) -> bool:
        if self.statuses and status not in self.statuses:
            return False
        if not self.name_pattern and not self.text_pattern:
            return True
        has_kind = bool(self.name_pattern) and any(re.fullmatch(self.name_pattern, kind) for kind in answer.error_names)
        return has_kind or (
            bool(self.text_pattern) and re.search(self.text_pattern, answer.text, re.I | re.S) is not None
        )


MAX_RATE_WAIT_S = 3600.0
"""Maximum time until a rate limit resets, in seconds. If the reset takes longer, the credit is considered used up."""

# Statuses of permanent rejections. A server error (5xx) is never permanent, even if its text suggests it.
_REFUSAL_STATUSES = (200, 400, 401, 402, 403, 404, 405, 406, 410, 412, 418, 422, 429, 451)

EARLY_RULES = (
    ErrorRule(ErrorClass(RouteFailed, "proxy"), (407,)),
    ErrorRule(ErrorClass(RouteFailed, "portal"), (511,)),
    ErrorRule(
        ErrorClass(RouteFailed, "tls"),
        (400, 497),
        text_pattern=r"plain http request was sent to https|http request to an https server",
    ),
    ErrorRule(
        ErrorClass(BadRequest, "country"),
        name_pattern=r"unsupported_country\w*",
        text_pattern=words.COUNTRY_TEXT,
        statuses=_REFUSAL_STATUSES,
    ),
    ErrorRule(ErrorClass(BadRequest, "country"), (451,)),
    ErrorRule(ErrorClass(BadRequest, "content"), (200, 400, 403, 422, 451), words.CONTENT_KINDS, words.CONTENT_TEXT),
    ErrorRule(ErrorClass(ImageRejected), (200, 400, 413, 422, 500), words.IMAGE_KINDS, words.IMAGE_TEXT),
)
QUOTA_RULES = (
    ErrorRule(
        ErrorClass(QuotaExceeded, "spending_limit"),
        _REFUSAL_STATUSES,
        r"spend\w*|budget\w*|(?:subscription_sharing_)?usage_limit\w*",
        words.SPENDING_TEXT,
    ),
    ErrorRule(ErrorClass(QuotaExceeded), (402,)),
    ErrorRule(ErrorClass(QuotaExceeded), (), words.QUOTA_KINDS),
    ErrorRule(ErrorClass(QuotaExceeded), (200, 400, 401, 403, 412, 422, 429), text_pattern=words.QUOTA_TEXT),
)
REMAINING_RULES = (
    ErrorRule(ErrorClass(RateLimited), (500,), text_pattern=r"litellm\.RateLimitError"),
    ErrorRule(ErrorClass(AuthFailed), (500,), text_pattern=r"litellm\.AuthenticationError"),
    ErrorRule(ErrorClass(UnknownModel), (500,), text_pattern=r"litellm\.NotFoundError"),
    ErrorRule(ErrorClass(BadRequest, "tools"), (200, 400, 404, 422, 500), text_pattern=words.NO_TOOLS_TEXT),
    ErrorRule(ErrorClass(BadRequest), (400, 500), text_pattern=words.UNSUPPORTED_FEATURE_TEXT),
    ErrorRule(ErrorClass(RateLimited), (429,)),
    ErrorRule(ErrorClass(RateLimited), (200, 400, 403, 503), words.RATE_KINDS, words.RATE_TEXT),
    ErrorRule(ErrorClass(UnknownModel, "retired"), (400, 404, 410), words.RETIRED_KINDS, words.RETIRED_TEXT),
    ErrorRule(ErrorClass(AuthFailed), (200, 400, 422), words.KEY_KINDS, words.KEY_TEXT),
    ErrorRule(
        ErrorClass(BadRequest, "organisation"),
        (400, 401, 403, 404),
        words.ORGANISATION_KINDS,
        words.ORGANISATION_TEXT,
    ),
    ErrorRule(ErrorClass(UnknownModel), (200, 400, 403, 422), words.MODEL_KINDS, words.MODEL_TEXT),
    ErrorRule(
        ErrorClass(AuthFailed, "access"), (401, 404), r"(?:key|team|user)_model_access_denied", words.ACCESS_TEXT
    ),
    ErrorRule(ErrorClass(UnknownModel), (200,), text_pattern="unexpected endpoint or method"),
    ErrorRule(ErrorClass(AuthFailed), (401,)),
    ErrorRule(ErrorClass(AuthFailed), (498,), text_pattern=words.KEY_TEXT),
    ErrorRule(ErrorClass(AuthFailed), (403,), words.KEY_KINDS, words.KEY_TEXT),
    ErrorRule(ErrorClass(AuthFailed, "access"), (403,)),
    ErrorRule(ErrorClass(AuthFailed, "access"), (200,), r"permission\w*|access_denied\w*|forbidden\w*"),
    ErrorRule(ErrorClass(UnknownModel), (404, 410)),
    ErrorRule(ErrorClass(BadRequest), (501, 505)),
    ErrorRule(ErrorClass(Overloaded), (408, 409, 423, 424, 425, 498, 499)),
    ErrorRule(ErrorClass(Overloaded), range(500, 600)),
    ErrorRule(ErrorClass(Overloaded), (200, 400, 404), words.OVERLOADED_KINDS, words.OVERLOADED_TEXT),
)


def classify_response(status: int, headers: Mapping[str, str], answer: ErrorResponse) -> ErrorClass:
    """Classify an error response. The names in `headers` are in lower case. Status 200 means that the error was sent in
    place of a reply."""
    is_page = answer.is_web_page or answer.text.startswith("error code: ")
    if is_page and (meaning := _page_meaning(status, headers, answer)) is not None:
        return meaning
    if (meaning := _first_match(EARLY_RULES, status, answer)) is not None:
        return meaning
    if exceeds_rate_limit(answer.text):
        return ErrorClass(ContextOverflow)
    if (meaning := _quota_meaning(status, answer)) is not None:
        return meaning
    if _is_too_large(status, answer):
        return ErrorClass(ContextOverflow)
    if (meaning := _first_match(REMAINING_RULES, status, answer)) is not None:
        return meaning
    if status == 200 and not any(re.fullmatch(words.PERMANENT_KINDS, kind) for kind in answer.error_names):
        return ErrorClass(Overloaded)  # the server accepted the request and then failed, as with a 5xx status
    return ErrorClass(BadRequest)


def _page_meaning(status: int, headers: Mapping[str, str], answer: ErrorResponse) -> ErrorClass | None:
    """Classify a web page that was sent instead of a reply."""
    if re.search(words.COUNTRY_TEXT, answer.text, re.I | re.S):
        return ErrorClass(BadRequest, "country")
    if re.search(words.CLOUDFLARE_RATE_TEXT, answer.text, re.I):
        return ErrorClass(RateLimited)
    if status == 530:  # Cloudflare's status for an unreachable server; its page has a similar number
        return ErrorClass(Overloaded)
    is_barred = status == 403 and "akamai" in headers.get("server", "").lower()
    if is_barred or headers.get("cf-mitigated") == "challenge" or re.search(words.CHALLENGE_PAGE, answer.text, re.I):
        return ErrorClass(ProviderError, "challenge")
    if status == 200:
        return ErrorClass(RouteFailed, "portal")
    if status in (403, 503) and re.search(words.FILTER_PAGE, answer.text, re.I):
        return ErrorClass(RouteFailed, "proxy")
    return None


def _quota_meaning(status: int, answer: ErrorResponse) -> ErrorClass | None:
    meaning = _first_match(QUOTA_RULES, status, answer)
    if meaning is None or any(re.fullmatch(words.QUOTA_KINDS, kind) for kind in answer.error_names):
        return meaning
    retry_delay = parse_retry_delay(answer.text)
    is_rate_limit = status == 429 and (
        (retry_delay is not None and retry_delay <= MAX_RATE_WAIT_S) or re.search(words.RATE_TEXT, answer.text, re.I)
    )
    return ErrorClass(RateLimited) if is_rate_limit else meaning


def _is_too_large(status: int, answer: ErrorResponse) -> bool:
    if status in (401, 403, 429):
        return False
    is_rate_limit = any(re.fullmatch(words.RATE_KINDS, kind) for kind in answer.error_names)
    has_overflow_kind = any(re.fullmatch(words.OVERFLOW_KINDS, kind) for kind in answer.error_names)
    return status == 413 or has_overflow_kind or (is_overflow(answer.text) and not is_rate_limit)


def _first_match(rules: Collection[ErrorRule], status: int, answer: ErrorResponse) -> ErrorClass | None:
    return next((rule.meaning for rule in rules if rule.matches(status, answer)), None)
