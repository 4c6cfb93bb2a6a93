"""Error answers of many servers, and what they mean here."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ImageRejected,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    UnknownModel,
)
from ebbtide.agent.providers.wires.response_errors import classify_error, retry_after


def rows(name: str) -> list[dict[str, Any]]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


NO_OVERFLOWS = rows("no_overflows.jsonl")
"""What servers say of tokens, limits and lengths when the request is not too large for the window."""
OVERFLOWS = rows("overflows.jsonl")
"""What servers say to a request that is too large, and the numbers in it."""


ERRORS = rows("errors.jsonl")
"""What servers, gateways and networks answer when something is wrong, and what it is."""


def told(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize("case", OVERFLOWS, ids=lambda case: str(case["server"]))
@pytest.mark.parametrize("status", [400, 422, 200])
def test_a_request_that_is_too_large(case: dict[str, object], status: int) -> None:
    error = classify_error(status, {}, case["body"], "p/m")
    assert isinstance(error, ContextOverflow)
    assert (error.size, error.limit) == (case["size"], case["limit"])


@pytest.mark.parametrize("case", NO_OVERFLOWS, ids=lambda case: str(case["server"]))
def test_a_request_that_fails_for_another_reason(case: dict[str, Any]) -> None:
    assert classify_error(case["status"], {}, case["body"], "p/m").code == case["kind"]


@pytest.mark.parametrize(
    "says",
    [
        "messages.4.content.0.image.source.base64: image exceeds 5 MB maximum: 6002220 bytes > 5242880 bytes",
        "messages.2.content.1.image.source: At least one of the image dimensions exceed max allowed size for "
        "many-image requests: 2000 pixels",
        "Could not process image",
        "The image was specified using the image/jpeg media type, but the image appears to be a image/png image",
        "You uploaded an unsupported image. Please make sure your image is valid.",
        "The image data you provided does not represent a valid image.",
        "Too many images in request: 501 > 500.",
        "Unable to process input image. Please retry or report.",
        "Failed to load image or audio file",
        "image: unknown format",
    ],
)
def test_a_picture_that_is_not_taken_is_told_from_a_request_that_is_not(says: str) -> None:
    error = classify_error(400, {}, told(says, type="invalid_request_error"), "p/m")
    assert (type(error), error.code) == (ImageRejected, "bad_request")


def test_nothing_else_is_taken_for_a_picture_that_is_not_taken() -> None:
    cases = (*ERRORS, *NO_OVERFLOWS)
    refused = {
        case["server"]
        for case in cases
        if isinstance(classify_error(case["status"], {}, case["body"], "p/m"), ImageRejected)
    }
    assert refused == {"anthropic, a picture of too many bytes", "anthropic, a picture of too many pixels"}


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: str(case["server"]))
def test_what_is_behind_an_error(case: dict[str, Any]) -> None:
    error = classify_error(case["status"], case["headers"], case["body"], "p/m")
    assert (error.code, error.cause) == (case["code"], case["cause"])
    page = case["body"] if isinstance(case["body"], str) else json.dumps(case["body"])
    assert classify_error(case["status"], case["headers"], page.encode(), "p/m").code == case["code"]


@pytest.mark.parametrize(
    "case", [case for case in ERRORS if case["code"] != "auth"], ids=lambda case: str(case["server"])
)
def test_only_a_key_is_said_to_be_refused(case: dict[str, Any]) -> None:
    assert "rejected the API key" not in str(classify_error(case["status"], case["headers"], case["body"], "p/m"))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (413, b"", ContextOverflow),
        (
            429,
            told("Rate limit reached on tokens per min (TPM): Limit 30000, Used 20000, Requested 20000."),
            RateLimited,
        ),
        (429, told("Too many tokens, please wait before trying again."), RateLimited),
        (429, told("Rate limit reached. Add a payment method: https://x.example/billing"), RateLimited),
        (429, told("You exceeded your current quota, please check your plan and billing details."), QuotaExceeded),
        (429, told("You exceeded your current quota. Please retry in 22.5s."), RateLimited),
        (400, told("Your credit balance is too low.", type="invalid_request_error"), QuotaExceeded),
        (402, told("Insufficient Balance", code="invalid_request_error"), QuotaExceeded),
        (400, told("max_tokens is too large: 90000. This model supports at most 8000 tokens."), BadRequest),
        (400, told("tools.0.name: String should match pattern"), BadRequest),
        (400, b"", BadRequest),
        (404, {"error": "model 'm' not found"}, UnknownModel),
        (404, b"404 page not found", UnknownModel),
        (400, told("no such model", code="model_not_found"), UnknownModel),
        (403, b"<html><head><title>Forbidden</title></head></html>", AuthFailed),
        (502, b"<html><head><title>502 Bad Gateway</title></head></html>", Overloaded),
        (503, told("prompt queue is full"), Overloaded),
        (408, None, Overloaded),
        (409, {}, Overloaded),
        (200, told("slow", code=429), RateLimited),
        (200, told("no", code=400), BadRequest),
        (200, {"type": "error", **told("Internal server error", type="api_error")}, Overloaded),
        (200, {"error": "something broke"}, Overloaded),
    ],
)
def test_other_errors(status: int, body: object, kind: type[ProviderError]) -> None:
    assert type(classify_error(status, {}, body, "p/m")) is kind


def test_the_sentence_says_who_and_what_and_what_to_do() -> None:
    body = {"error": {"message": "Incorrect API key provided: sk-ab***wxyz."}}
    error = classify_error(401, {}, body, "openai/gpt-6")
    assert str(error) == (
        "openai/gpt-6 rejected the API key: Incorrect API key provided: ***. Check the key and its permissions."
    )


def test_a_long_and_hostile_message_is_tidied() -> None:
    key = "a key with no form of its own"
    error = classify_error(400, {}, {"error": {"message": f"\x1b[31m{key}\u202e \n" + "x" * 1000}}, "p/m", key)
    assert "\x1b" not in str(error)
    assert "\u202e" not in str(error)
    assert "\n" not in str(error)
    assert key not in str(error)
    assert "[31m*** " + "x" * 100 in str(error)
    assert len(str(error)) < 650


def test_a_stand_in_for_a_key_is_no_secret() -> None:
    assert "unknown parameter" in str(classify_error(400, {}, told("unknown parameter"), "p/m", key="k"))


def test_an_error_in_a_stream_has_no_status() -> None:
    error = classify_error(
        200, {}, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "p/m"
    )
    assert error.status is None
    assert "in the middle of its reply: Overloaded." in str(error)


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"retry-after": "9"}, "", 9),
        ({"retry-after": "30s"}, "", 30),
        ({"retry-after": "1.5 seconds"}, "", 1.5),
        ({"retry-after": "9, 30"}, "", 9),
        ({"retry-after": "1,000"}, "", None),
        ({"retry-after": "30 min"}, "", None),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT", "date": "Fri, 20 Nov 2026 10:00:00 GMT"}, "", 30),
        ({"retry-after": "Fri, 20 Nov 2026 09:00:00 GMT", "date": "Fri, 20 Nov 2026 10:00:00 GMT"}, "", 0),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT"}, "", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-1"}, "", None),
        ({"retry-after": "1767225600"}, "", None),
        ({"retry-after": "9" * 400}, "", None),
        ({}, f"try again in {'9' * 400} hours", None),
        ({}, "Please try again in 6m7.5s.", 367.5),
        ({}, "Please try again in 250ms.", 0.25),
        ({}, "Please retry after 20 seconds.", 20),
        ({}, "Please wait 2 minutes", 120),
        ({}, "available again in 1h30m", 5400),
        ({}, "later", None),
    ],
)
def test_how_long_a_server_asks_to_wait(headers: dict[str, str], text: str, seconds: float | None) -> None:
    assert retry_after(headers, text) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT"}, 30),
        ({"retry-after": "Friday, 20-Nov-26 10:00:30 GMT"}, 30),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 -0000", "date": "nonsense"}, 30),
        ({"retry-after": "Fri, 20 Nov 2026 09:59:00 GMT"}, 0),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT", "date": "Fri, 20 Nov 2026 10:00:20 GMT"}, 10),
        ({"retry-after": "Fri, 20 Nov 99999 10:00:30 GMT"}, None),
    ],
)
def test_a_date_without_the_servers_clock_is_read_by_ours(headers: dict[str, str], seconds: float | None) -> None:
    now = datetime(2026, 11, 20, 10, tzinfo=UTC).timestamp()
    assert classify_error(429, headers, b"", "p/m", None, now).retry_after == seconds


def test_names_of_headers_are_of_any_case() -> None:
    assert classify_error(429, {"Retry-After": "3"}, b"", "p/m").retry_after == 3


def test_a_redirect_says_where_to() -> None:
    assert "redirects to `https://elsewhere.example`" in str(
        classify_error(301, {"location": "https://elsewhere.example"}, b"", "p/m")
    )


def test_a_redirect_shows_no_secret() -> None:
    location = "https://me:swordfish-4711@elsewhere.example:8443/v1?token=abcd1234efgh#x"
    assert "redirects to `https://elsewhere.example:8443/v1`" in str(
        classify_error(307, {"location": location}, b"", "p/m")
    )


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("https://x.example/v1/", "https://x.example/v1/"),
        ("https://me:pass@x.example/v1?key=plain#plain", "https://x.example/v1"),
        ("https://me:pa/ss@x.example/v1", "https://x.example/v1"),
        ("https://x.example/plain-key-of-mine/v1", "https://x.example/***/v1"),
    ],
)
def test_where_a_redirect_leads_is_told_without_secrets(location: str, place: str) -> None:
    error = classify_error(302, {"Location": location}, b"", "p/m", "plain-key-of-mine")
    assert str(error) == f"the p/m server redirects to `{place}`. Set `base_url` to the server's address."


@pytest.mark.parametrize("secret", ["Bearer plain-key-of-mine", "PLAIN-KEY-OF-MINE", "Basic dTpwYXNzd29yZA=="])
def test_a_server_that_echoes_what_it_was_sent_shows_no_secret(secret: str) -> None:
    text = str(classify_error(400, {}, told(f"refused: {secret}!"), "p/m", "plain-key-of-mine"))
    assert "***" in text
    assert "mine" not in text.lower()
    assert "dTpw" not in text
