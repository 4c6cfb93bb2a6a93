"""Which texts hold secrets, and which only look as if they did."""

import json
import shlex
from base64 import b64encode, urlsafe_b64encode
from html import escape
from textwrap import wrap
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.secrets.key_formats import forms_of, known_secrets, secrets_in

LETTERS = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA"
KEYS = {
    "aws-key": "AKIA" + "Q3EGR7TUVWX2YZ4K",
    "github-token": "ghp_" + LETTERS + "bCd4",
    "gitlab-token": "glpat-" + LETTERS[:20],
    "anthropic-key": "sk-ant-" + "api03-" + LETTERS * 2,
    "openai-key": "sk-" + "proj-" + LETTERS * 2,
    "google-key": "AIza" + LETTERS + "-_b",
    "slack-token": "xoxb-" + "123456789012-" + LETTERS,
    "stripe-key": "sk_live_" + LETTERS,
    "npm-token": "npm_" + LETTERS + "bCd4",
    "sendgrid-key": "SG." + LETTERS[:22] + "." + LETTERS + LETTERS[:11],
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + LETTERS,
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + LETTERS * 3 + "\n-----END RSA " + "PRIVATE KEY-----",
}  # put together, so that no scanner takes this file for one with keys in it


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("around", ["{}", "x = '{}'\n", '{{"key": "{}"}}', "https://h/?k={}&b", "\ud800{} "])
def test_a_key_is_told_by_its_form(name: str, around: str) -> None:
    text = around.format(KEYS[name])
    assert [(one.name, text[one.start : one.end]) for one in secrets_in(text, {})] == [(name, KEYS[name])]


@pytest.mark.parametrize(
    "text",
    [
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "123e4567-e89b-12d3-a456-426614174000", "Bearer of good news",
        "AKIA" + "XXXXXXXXXXXXXXXX", "AKIAIOSFODNN7" + "EXAMPLE", "ghp_" + "x" * 36, "sk-test",
        "class='sk-estimator-repr-html'",
        "sk-" + "learnestimatorrepresentationofahtml", "npm_config_registry",
        "eyJhbGciOiJIUzI1NiJ9", "PRIVATE KEY", "glpat-xx",
        "-----BEGIN PUBLIC KEY-----\n" + LETTERS * 3 + "\n-----END PUBLIC KEY-----",
    ],
)  # fmt: skip
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert secrets_in(text, {}) == []


@given(st.text(min_size=12, max_size=60), st.binary(max_size=7), st.binary(max_size=7))
def test_a_known_value_is_found_in_whatever_it_is_encoded(value: str, before: bytes, behind: bytes) -> None:
    data = value.encode()
    known = dict.fromkeys(forms_of(value), "K")
    encoded = b64encode(before + data + behind).decode()
    safe = urlsafe_b64encode(before + data + behind).decode()
    in_words = (
        repr(value),
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        escape(value),
        shlex.quote(value),
    )
    in_addresses = (quote(value, safe=""), quote_plus(value))
    for text in (f"a{value}b", *in_words, *in_addresses, data.hex(), data.hex().upper(), encoded, safe):
        assert secrets_in(text, known), text


@given(st.text(min_size=60, max_size=200), st.binary(max_size=80), st.sampled_from([40, 60, 64, 76]), st.booleans())
def test_a_known_value_is_found_where_lines_break_it_apart(
    value: str, before: bytes, width: int, numbers: bool
) -> None:
    known = dict.fromkeys(forms_of(value), "K")
    for encoded in (b64encode(before + value.encode()).decode(), (before + value.encode()).hex()):
        lines = [f"{number}\t" * numbers + line for number, line in enumerate(wrap(encoded, width), 1)]
        text = "\n".join(["It says:", *lines, "and no more."])
        (part,) = {*known} & {form for form in known if form in encoded}
        hidden = "".join(text[one.start : one.end] for one in secrets_in(text, known))
        assert hidden == part, text


def test_known_are_the_values_of_variables_that_say_so_and_passwords_in_addresses() -> None:
    environment = {
        "MY_TOKEN": "t0ken-value", "DATABASE_URL": "postgres://u:Sesam44open@h/db",
        "SSH_AUTH_SOCK": "/tmp/ssh-1/agent.2",
        "PATH": "/usr/bin:/bin", "AUTH": "password", "KEY": "short", "HOME": "/home/u", "A_SECRET": "CANARY555",
    }  # fmt: skip
    assert known_secrets(environment) == {
        "t0ken-value": "MY_TOKEN", "Sesam44open": "DATABASE_URL", "CANARY555": "A_SECRET",
    }  # fmt: skip


@pytest.mark.parametrize(("value", "data"), [("abc\udcffdefghi", b"abc\xffdefghi"), ("abc\ud800defghi", None)])
def test_a_value_that_is_no_text_is_one_nevertheless(value: str, data: bytes | None) -> None:
    forms = list(forms_of(value))
    assert forms[0] == value
    assert data is None or {data.hex(), quote(data)} <= set(forms)
