"""Rules that classify a server's error response: by its status, by the server's name for the error, and by its text
only as a last resort. Pure."""

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
from ebbtide.agent.providers.wires import error_words as words
from ebbtide.agent.providers.wires.error_answers import ErrorAnswer, wait_in
from ebbtide.agent.providers.wires.overflow_errors import exceeds_rate, is_overflow


@dataclass(frozen=True, slots=True)
class Meaning:
    """A kind of error and, if known, its cause."""

    kind: type[ProviderError]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """The meaning of a response with one of these statuses and one of these names or texts."""

    meaning: Meaning
    statuses: Collection[int] = ()
    """Empty matches any status."""
    kinds: str = ""
    """A pattern for a whole kind."""
    text: str = ""

    def holds(self, status: int, said: ErrorAnswer) -> bool:
        if self.statuses and status not in self.statuses:
            return False
        if not self.kinds and not self.text:
            return True
        named = bool(self.kinds) and any(re.fullmatch(self.kinds, kind) for kind in said.kinds)
        return named or (bool(self.text) and re.search(self.text, said.text, re.I | re.S) is not None)


MAX_RATE_WAIT_S = 3600.0
"""Seconds. A limit that resets within this time is a rate limit, not used-up credit."""

# Statuses of permanent refusals. A server error (5xx) counts as one, even if its text suggests more.
_REFUSAL_STATUSES = (200, 400, 401, 402, 403, 404, 405, 406, 410, 412, 418, 422, 429, 451)

BEFORE_SIZE = (
    ErrorRule(Meaning(RouteFailed, "proxy"), (407,)),
    ErrorRule(Meaning(RouteFailed, "portal"), (511,)),
    ErrorRule(
        Meaning(RouteFailed, "tls"),
        (400, 497),
        text=r"plain http request was sent to https|http request to an https server",
    ),
    ErrorRule(
        Meaning(BadRequest, "country"), kinds=r"unsupported_country\w*", text=words.COUNTRY, statuses=_REFUSAL_STATUSES
    ),
    ErrorRule(Meaning(BadRequest, "country"), (451,)),
    ErrorRule(Meaning(BadRequest, "content"), (200, 400, 403, 422, 451), words.CONTENT_KINDS, words.CONTENT),
    ErrorRule(Meaning(ImageRejected), (200, 400, 413, 422, 500), words.PICTURE_KINDS, words.PICTURE),
)
QUOTA = (
    ErrorRule(
        Meaning(QuotaExceeded, "spending_limit"),
        _REFUSAL_STATUSES,
        r"spend\w*|budget\w*|usage_limit\w*",
        words.SPENDING,
    ),
    ErrorRule(Meaning(QuotaExceeded), (402,)),
    ErrorRule(Meaning(QuotaExceeded), (), words.QUOTA_KINDS),
    ErrorRule(Meaning(QuotaExceeded), (200, 400, 401, 403, 412, 422, 429), text=words.QUOTA_TEXT),
)
REST = (
    ErrorRule(Meaning(RateLimited), (500,), text=r"litellm\.RateLimitError"),
    ErrorRule(Meaning(AuthFailed), (500,), text=r"litellm\.AuthenticationError"),
    ErrorRule(Meaning(UnknownModel), (500,), text=r"litellm\.NotFoundError"),
    ErrorRule(Meaning(BadRequest, "tools"), (200, 400, 404, 422, 500), text=words.NO_TOOLS),
    ErrorRule(Meaning(BadRequest), (400, 500), text=words.UNABLE),
    ErrorRule(Meaning(RateLimited), (429,)),
    ErrorRule(Meaning(RateLimited), (200, 400, 403, 503), words.RATE_KINDS, words.RATE),
    ErrorRule(Meaning(UnknownModel, "retired"), (400, 404, 410), words.RETIRED_KINDS, words.MODEL_RETIRED),
    ErrorRule(Meaning(AuthFailed), (200, 400, 422), words.KEY_KINDS, words.KEY),
    ErrorRule(Meaning(BadRequest, "organisation"), (400, 401, 403, 404), words.ORGANISATION_KINDS, words.ORGANISATION),
    ErrorRule(Meaning(UnknownModel), (200, 400, 403, 422), words.MODEL_KINDS, words.MODEL),
    ErrorRule(Meaning(AuthFailed, "access"), (401, 404), r"(?:key|team|user)_model_access_denied", words.ACCESS),
    ErrorRule(Meaning(UnknownModel), (200,), text="unexpected endpoint or method"),
    ErrorRule(Meaning(AuthFailed), (401,)),
    ErrorRule(Meaning(AuthFailed), (498,), text=words.KEY),
    ErrorRule(Meaning(AuthFailed), (403,), words.KEY_KINDS, words.KEY),
    ErrorRule(Meaning(AuthFailed, "access"), (403,)),
    ErrorRule(Meaning(AuthFailed, "access"), (200,), r"permission\w*|access_denied\w*|forbidden\w*"),
    ErrorRule(Meaning(UnknownModel), (404, 410)),
    ErrorRule(Meaning(BadRequest), (501, 505)),
    ErrorRule(Meaning(Overloaded), (408, 409, 423, 424, 425, 498, 499)),
    ErrorRule(Meaning(Overloaded), range(500, 600)),
    ErrorRule(Meaning(Overloaded), (200, 400, 404), words.OVERLOADED_KINDS, words.OVERLOADED),
)  # fmt: skip


def meaning_of(status: int, headers: Mapping[str, str], said: ErrorAnswer) -> Meaning:
    """Classify an error response. `headers` have lower-case names; status 200 is an error instead of a reply."""
    is_page = said.is_page or said.text.startswith("error code: ")
    if is_page and (found := _page(status, headers, said)) is not None:
        return found
    if (found := _first(BEFORE_SIZE, status, said)) is not None:
        return found
    if exceeds_rate(said.text):
        return Meaning(ContextOverflow)
    if (found := _quota(status, said)) is not None:
        return found
    if _is_too_large(status, said):
        return Meaning(ContextOverflow)
    if (found := _first(REST, status, said)) is not None:
        return found
    if status == 200 and not any(re.fullmatch(words.PERMANENT_KINDS, kind) for kind in said.kinds):
        return Meaning(Overloaded)  # the server accepted the request and failed, like a 5xx before a stream
    return Meaning(BadRequest)


def _page(status: int, headers: Mapping[str, str], said: ErrorAnswer) -> Meaning | None:
    """Classify a web page that was sent instead of a reply."""
    if re.search(words.COUNTRY, said.text, re.I | re.S):
        return Meaning(BadRequest, "country")
    if re.search(words.CLOUD_RATE, said.text, re.I):
        return Meaning(RateLimited)
    if status == 530:  # Cloudflare's status for an unreachable server; its text contains a similar number
        return Meaning(Overloaded)
    is_barred = status == 403 and "akamai" in headers.get("server", "").lower()
    if is_barred or headers.get("cf-mitigated") == "challenge" or re.search(words.CHALLENGE, said.text, re.I):
        return Meaning(ProviderError, "challenge")
    if status == 200:
        return Meaning(RouteFailed, "portal")
    if status in (403, 503) and re.search(words.FILTER_PAGE, said.text, re.I):
        return Meaning(RouteFailed, "proxy")
    return None


def _quota(status: int, said: ErrorAnswer) -> Meaning | None:
    found = _first(QUOTA, status, said)
    if found is None or any(re.fullmatch(words.QUOTA_KINDS, kind) for kind in said.kinds):
        return found
    wait = wait_in(said.text)
    is_rate = status == 429 and (
        (wait is not None and wait <= MAX_RATE_WAIT_S) or re.search(words.RATE, said.text, re.I)
    )
    return Meaning(RateLimited) if is_rate else found


def _is_too_large(status: int, said: ErrorAnswer) -> bool:
    if status in (401, 403, 429):
        return False
    is_rate = any(re.fullmatch(words.RATE_KINDS, kind) for kind in said.kinds)
    named = any(re.fullmatch(words.OVERFLOW_KINDS, kind) for kind in said.kinds)
    return status == 413 or named or (is_overflow(said.text) and not is_rate)


def _first(rules: Collection[ErrorRule], status: int, said: ErrorAnswer) -> Meaning | None:
    return next((rule.meaning for rule in rules if rule.holds(status, said)), None)
