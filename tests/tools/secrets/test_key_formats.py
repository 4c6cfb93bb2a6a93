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

from ebbtide.tools.secrets.key_formats import detect_secrets, known_secrets, secret_encodings

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
    assert [(one.name, text[one.start : one.end]) for one in detect_secrets(text, {})] == [(name, KEYS[name])]


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
    assert detect_secrets(text, {}) == []


BEGIN, END = "-----BEGIN RSA " + "PRIVATE KEY-----", "-----END RSA " + "PRIVATE KEY-----"
LINES = [LETTERS[at:] + LETTERS + LETTERS[:at] for at in range(8)]


@pytest.mark.parametrize("before", ["", "-", "+", "   12\t", "key.txt-3-", '  "', "> | "])
@pytest.mark.parametrize(
    "lines",
    [
        [BEGIN, *LINES], [*LINES, END], [*LINES, "aB3=", END], [BEGIN, *LINES, "aB3=", END],
        [BEGIN, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,01", "", *LINES, END],
        [BEGIN, *LINES, "[… bytes 614-900 left out …]", *LINES, END],
    ],
)  # fmt: skip
def test_a_part_of_a_private_key_is_told(lines: list[str], before: str) -> None:
    text = "first\n" + "\n".join(before + line for line in lines) + "\nlast\n"
    left = text
    for one in reversed(detect_secrets(text, {})):
        left = left[: one.start] + left[one.end :]
    assert [line for line in LINES if line in left] == []
    assert left.startswith("first\n")
    assert left.endswith("\nlast\n")


@pytest.mark.parametrize("text", ["{}\n", "x = '{}'\nif x in text:\n    return find(text) - 1\n# {}\n"])
def test_what_tells_of_private_keys_is_none(text: str) -> None:
    assert detect_secrets(text.format(BEGIN, END), {}) == []


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ("{}\n", LETTERS), ("'{}'\r", LETTERS), ("Bearer {}", LETTERS), ("one,{}", LETTERS),
        ('{{"type": "x", "token": "{}"}}', LETTERS), ("sid={}; theme=dark", LETTERS),
        ("Name=n;Key={};Suffix=s", LETTERS),
        ("user:Pa55-w0rd", "Pa55-w0rd"), ("/{}/x", f"/{LETTERS}/x"),
        ("redis://:first-one@a,redis://:other-one@b-c", "other-one"), ("https://u:a%40b%2Fc%20d!@h", "a@b/c d!"),
        ("https://{}@h/x", LETTERS),
    ],
)  # fmt: skip
def test_what_is_a_secret_in_a_variable_is_known(value: str, hidden: str) -> None:
    assert hidden in known_secrets({"X_TOKEN": value.format(LETTERS)})


def test_paths_words_and_hosts_are_no_secrets() -> None:
    harmless = {
        "A_KEY": "/home/user/.config/Application Support/key.pem", "B_TOKEN": "~/token", "C_AUTH": "kubernetes",
        "PATH": "/usr/bin:/bin", "D_URL": "http://localhost:8080/Path1234567890/x@y", "E_PASS": "short",
    }  # fmt: skip
    assert known_secrets(harmless) == {}


@pytest.mark.parametrize("name", ["my-api-key", "openaiApiKey", "SLACK_WEBHOOK", "x.y.key", "DB_CONNECTION_STRING"])
def test_names_of_secrets_are_written_in_many_ways(name: str) -> None:
    assert known_secrets({name: LETTERS}) == {LETTERS: name}


@pytest.mark.parametrize("width", [7, 12, 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\0"])
def test_lines_of_any_length_that_break_a_value_apart_show_none_of_it(width: int, end: str) -> None:
    pieces = wrap(f"key={LETTERS}", width)
    text = end.join(["start", *pieces, "end"])
    left = text
    for one in reversed(detect_secrets(text, {LETTERS: "K"})):
        left = left[: one.start] + left[one.end :]
    assert left == end.join(["start", "key=", *[""] * (len(pieces) - 1), "end"])


@pytest.mark.parametrize(
    ("line", "group"), [("{0:08x}: {1}  {2}", 2), ("{0:08x}  {1}  |{2}|", 1), (" {1}", 1), ("{0:07o} {1}", 1)]
)
def test_a_dump_of_bytes_shows_none_of_a_value(line: str, group: int) -> None:
    data = f"the first line of it\nkey={LETTERS}\nand the last line of it".encode()
    rows = [data[at : at + 16] for at in range(0, len(data), 16)]
    text = "\n".join(
        line.format(at * 16, row.hex(" ", -group), row.decode().replace("\n", ".")) for at, row in enumerate(rows)
    )
    found = detect_secrets(text, dict.fromkeys(secret_encodings(LETTERS), "K"))
    left = text
    for one in reversed(found):
        left = left[: one.start] + left[one.end :]
    hidden = [at for at, row in enumerate(rows) if not {*row}.isdisjoint(LETTERS.encode()) and at in (1, 2, 3)]
    assert [row for row in hidden if rows[row].hex(" ", -group) in left] == []
    assert rows[0].hex(" ", -group) in left
    assert rows[-1].hex(" ", -group) in left


@pytest.mark.parametrize("size", [11, 20, 31])
def test_a_value_that_is_cut_off_is_hidden_as_far_as_it_is_there(size: int) -> None:
    text = f"a {LETTERS[:size]}\n[… left out …]\n{LETTERS[-size:]} b"
    found = [(one.start, one.end) for one in detect_secrets(text, {LETTERS: "K"})]
    assert found == [(2, 2 + size), (len(text) - 2 - size, len(text) - 2)]


@given(st.text(min_size=12, max_size=60), st.binary(max_size=7), st.binary(max_size=7))
def test_a_known_value_is_found_in_whatever_it_is_encoded(value: str, before: bytes, behind: bytes) -> None:
    data = value.encode()
    known = dict.fromkeys(secret_encodings(value), "K")
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
        assert detect_secrets(text, known), text


@given(st.text(min_size=60, max_size=200), st.binary(max_size=80), st.sampled_from([40, 60, 64, 76]), st.booleans())
def test_a_known_value_is_found_where_lines_break_it_apart(
    value: str, before: bytes, width: int, numbers: bool
) -> None:
    known = dict.fromkeys(secret_encodings(value), "K")
    for encoded in (b64encode(before + value.encode()).decode(), (before + value.encode()).hex()):
        lines = [f"{number}\t" * numbers + line for number, line in enumerate(wrap(encoded, width), 1)]
        text = "\n".join(["It says:", *lines, "and no more."])
        (part,) = {*known} & {form for form in known if form in encoded}
        hidden = "".join(text[one.start : one.end] for one in detect_secrets(text, known))
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
    forms = list(secret_encodings(value))
    assert forms[0] == value
    assert data is None or {data.hex(), quote(data)} <= set(forms)


def test_secrets_that_overlap_are_one_so_that_none_of_either_stays_visible() -> None:
    text = "x abcdefghijklmnop y"
    found = detect_secrets(text, {"abcdefgh": "A", "efghijklmnop": "B"})
    assert [(text[one.start : one.end], one.name) for one in found] == [("abcdefghijklmnop", "A")]
