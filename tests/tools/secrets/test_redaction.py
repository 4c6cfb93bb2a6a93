"""What is taken out of a text before anybody sees it, and what stays."""

from base64 import b64encode
from urllib.parse import quote

import pytest

from ebbtide.tools.secrets.redaction import redact_options, redact_text, redact_url


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Endpoint(key='sk-proj-abc123def456')", "Endpoint(key='***')"),
        ("x-api-key: sk-ant-api03-AbC_123-xyz999", "x-api-key: ***"),
        ("Authorization: Bearer abc.DEF-123456", "Authorization: Bearer ***"),
        ("{'authorization': 'Basic dXNlcjpwYXNz'}", "{'authorization': 'Basic ***'}"),
        ("token = 'q1w2e3r4t5y6'", "token = '***'"),
        ("{'api_key': b'0123456789abcdef'}", "{'api_key': b'***'}"),
        ("password=hunter2hunter2, x", "password=***, x"),
        ("http://me:swordfish@proxy:3128 is no proxy", "http://***@proxy:3128 is no proxy"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=***"),
        ("POST https://hooks.slack.com/services/T0/B0/XyZ now", "POST https://hooks.slack.com/services/*** now"),
        ("at https://h/cb?bearer=plainword", "at https://h/cb?bearer=***"),
        ("ghp_0123456789abcdefABCD and AIzaSyA1234567890", "*** and ***"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_DEF", "***"),
        ("-----BEGIN PRIVATE KEY-----\nabc\ndef\n-----END PRIVATE KEY-----\nnext", "***\nnext"),
        ("the first: swordfish and swordfish\\n2", "the first: *** and ***"),
        ("the home: /home/me/project", "the home: /home/me/project"),
        ("    token = self._next_token()", "    token = self._next_token()"),
        ('  File "/a/keys.py", line 12, in read', '  File "/a/keys.py", line 12, in read'),
        ("at http://h/mcp?a=1&apikey=plainword&b=c refused", "at http://h/mcp?a=1&apikey=***&b=c refused"),
        ("keyboard, monkey, task-1234567890", "keyboard, monkey, task-1234567890"),
    ],
)
def test_secrets_are_hidden_and_the_rest_is_not(text: str, redacted: str) -> None:
    environment = {
        "MY_API_KEY": "swordfish",
        "A_TOKEN": "short",
        "PWD": "/home/me/project",
        "OTHER": "keyboard, monkey",
    }
    assert redact_text(text, environment, ["swordfish\n2"]) == redacted


def test_a_known_secret_is_hidden_in_whatever_form_it_stands() -> None:
    value = "sw0rdfish/näh?"
    encoded = b64encode(f"user:{value}".encode()).decode()
    text = f"{value} {quote(value, safe='')} {value.encode().hex()} {encoded} '{value}'"
    redacted = redact_text(text, {"MY_SECRET": value})
    assert not [form for form in (value, quote(value, safe=""), value.encode().hex()) if form in redacted]
    assert (redacted.count("***"), encoded[8:24] in redacted) == (5, False)


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("https://models.example/v1", "https://models.example/v1"),
        ("https://me:pass@models.example:8/v1@2", "https://***@models.example:8/v1@2"),
        ("https://token@models.example", "https://***@models.example"),
        ("https://models.example/v1?key=abc&v=1", "https://models.example/v1?key=***&v=***"),
        ("http://me:pa/ss@models.example/v1", "http://***@models.example/v1"),
        ("http://localhost:8000/@scope/v1", "http://localhost:8000/@scope/v1"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, redacted: str) -> None:
    assert redact_url(url) == redacted


def test_what_options_are_given_is_hidden_and_other_words_are_not() -> None:
    words = ["serve", "--api-key", "plain", "--token=plain", "--verbose", "--auth", "--port", "80", "-k", "x"]
    assert redact_options(words) == [
        "serve", "--api-key", "***", "--token=***", "--verbose", "--auth", "--port", "80", "-k", "x"
    ]  # fmt: skip
