import pytest

from ebbtide.tui.integrations.browser.access import COOKIE_LIFETIME_S, TOKEN_LIFETIME_S, AccessVerdict, BrowserAccess

GATE = BrowserAccess(4000, "f", "token", 5.0, {"secret": 100.0})
HOST = {"host": "127.0.0.1:4000"}
OURS = {**HOST, "origin": "http://127.0.0.1:4000"}
COOKIE = {"ebb-4000": "secret"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "query", "cookies", "verdict"),
    [
        ("GET", "/", HOST, {"token": "token"}, {}, "set cookie"),
        ("GET", "/f/", HOST, {}, COOKIE, "allow"),
        ("GET", "/", HOST, {}, COOKIE, "deny"),
        ("GET", "/f", HOST, {}, COOKIE, "deny"),
        ("GET", "/g/ws", OURS, {}, COOKIE, "deny"),
        ("GET", "/f/", HOST, {"token": "token"}, {}, "deny"),
        ("GET", "/f/ws", OURS, {}, COOKIE, "allow"),
        ("GET", "/f/static/js/textual.js", HOST, {}, COOKIE, "allow"),
        ("GET", "/f/", HOST, {}, {}, "deny"),
        ("GET", "/", HOST, {"token": "secret"}, {}, "deny"),
        ("GET", "/f/", HOST, {}, {"ebb-4000": "token"}, "deny"),
        ("GET", "/f/", HOST, {}, {"ebb-4001": "secret"}, "deny"),
        ("GET", "/", HOST, {"token": ""}, {"ebb-4000": ""}, "deny"),
        ("GET", "/f/ws", OURS, {"token": "token"}, {}, "deny"),
        ("GET", "/f/static/js/textual.js", HOST, {"token": "token"}, {}, "deny"),
        ("GET", "/f/", {"host": "evil.example:4000"}, {}, COOKIE, "deny"),
        ("GET", "/", {"host": "localhost:4000"}, {"token": "token"}, {}, "deny"),
        ("GET", "/f/", {}, {}, COOKIE, "deny"),
        ("GET", "/f/ws", HOST, {}, COOKIE, "deny"),
        ("GET", "/f/ws", {**HOST, "origin": "http://evil.example"}, {}, COOKIE, "deny"),
        ("GET", "/f/ws", {**HOST, "origin": "null"}, {}, COOKIE, "deny"),
        ("GET", "/f/ws", {**HOST, "origin": "http://127.0.0.1:4001"}, {}, COOKIE, "deny"),
        ("GET", "/", {**HOST, "origin": "http://evil.example"}, {"token": "token"}, {}, "deny"),
        ("HEAD", "/", HOST, {"token": "token"}, {}, "deny"),
        ("POST", "/f/", OURS, {}, COOKIE, "deny"),
        ("OPTIONS", "/f/ws", OURS, {}, COOKIE, "deny"),
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
    assert GATE.check_request(method, path, headers, query, cookies, 6.0) == verdict


def test_no_other_page_is_told_anything() -> None:
    assert not [name for name in GATE.response_headers() if name.lower().startswith("access-control")]
    assert "default-src 'none'" in GATE.response_headers()["Content-Security-Policy"]


def first(gate: BrowserAccess, token: str, now: float) -> AccessVerdict:
    return gate.check_request("GET", "/", HOST, {"token": token}, {}, now)


def again(gate: BrowserAccess, cookie: str, now: float) -> AccessVerdict:
    return gate.check_request("GET", "/f/", HOST, {}, {"ebb-4000": cookie}, now)


def test_a_token_is_used_once_and_each_browser_has_a_cookie_of_its_own_for_a_while() -> None:
    gate = BrowserAccess(4000, "f", "one", 0.0)
    assert first(gate, "one", 1.0) == "set cookie"
    gate.admit_browser("a", 1.0)
    assert (first(gate, "one", 2.0), first(gate, "", 2.0)) == ("deny", "deny")
    gate.replace_token("two", 100.0)
    assert (first(gate, "one", 101.0), first(gate, "two", 101.0)) == ("deny", "set cookie")
    gate.admit_browser("b", 101.0)
    assert [again(gate, cookie, COOKIE_LIFETIME_S) for cookie in "ab"] == ["allow", "allow"]
    assert [again(gate, cookie, COOKIE_LIFETIME_S + 50) for cookie in "ab"] == ["deny", "allow"]
    gate.admit_browser("c", COOKIE_LIFETIME_S + 60)
    assert list(gate.cookies) == ["b", "c"]


def test_an_address_that_nobody_opened_is_worth_nothing_after_a_while() -> None:
    gate = BrowserAccess(4000, "f", "one", 50.0)
    assert (first(gate, "one", 49 + TOKEN_LIFETIME_S), first(gate, "one", 50 + TOKEN_LIFETIME_S)) == (
        "set cookie",
        "deny",
    )
