import pytest

from tui.web.access import AccessVerdict, BrowserAccess

GATE = BrowserAccess(4000, "token", "secret")
HOST = {"host": "127.0.0.1:4000"}
OURS = {**HOST, "origin": "http://127.0.0.1:4000"}
COOKIE = {"ebb-4000": "secret"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "query", "cookies", "verdict"),
    [
        ("GET", "/", HOST, {"token": "token"}, {}, "give a cookie"),
        ("GET", "/", HOST, {}, COOKIE, "let in"),
        ("GET", "/ws", OURS, {}, COOKIE, "let in"),
        ("GET", "/static/js/textual.js", HOST, {}, COOKIE, "let in"),
        ("GET", "/", HOST, {}, {}, "refuse"),
        ("GET", "/", HOST, {"token": "secret"}, {}, "refuse"),
        ("GET", "/", HOST, {}, {"ebb-4000": "token"}, "refuse"),
        ("GET", "/", HOST, {}, {"ebb-4001": "secret"}, "refuse"),
        ("GET", "/", HOST, {"token": ""}, {"ebb-4000": ""}, "refuse"),
        ("GET", "/ws", OURS, {"token": "token"}, {}, "refuse"),
        ("GET", "/static/js/textual.js", HOST, {"token": "token"}, {}, "refuse"),
        ("GET", "/", {"host": "evil.example:4000"}, {}, COOKIE, "refuse"),
        ("GET", "/", {"host": "localhost:4000"}, {"token": "token"}, {}, "refuse"),
        ("GET", "/", {}, {}, COOKIE, "refuse"),
        ("GET", "/ws", HOST, {}, COOKIE, "refuse"),
        ("GET", "/ws", {**HOST, "origin": "http://evil.example"}, {}, COOKIE, "refuse"),
        ("GET", "/ws", {**HOST, "origin": "null"}, {}, COOKIE, "refuse"),
        ("GET", "/ws", {**HOST, "origin": "http://127.0.0.1:4001"}, {}, COOKIE, "refuse"),
        ("GET", "/", {**HOST, "origin": "http://evil.example"}, {"token": "token"}, {}, "refuse"),
        ("POST", "/", OURS, {}, COOKIE, "refuse"),
        ("OPTIONS", "/ws", OURS, {}, COOKIE, "refuse"),
    ],
)
def test_who_is_let_in(
    method: str,
    path: str,
    headers: dict[str, str],
    query: dict[str, str],
    cookies: dict[str, str],
    verdict: AccessVerdict,
) -> None:
    assert GATE.judge(method, path, headers, query, cookies) == verdict


def test_no_other_page_is_told_anything() -> None:
    assert not [name for name in GATE.headers() if name.lower().startswith("access-control")]
    assert "default-src 'none'" in GATE.headers()["Content-Security-Policy"]
