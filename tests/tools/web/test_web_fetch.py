"""web_fetch against servers on this machine, which tests let it reach by `private`."""

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpcore2
import pytest

import ebbtide.tools.web.fetch
import ebbtide.tools.web_fetch
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.web_fetch import WebFetch
from ebbtide.tools.web_search import WebSearch

HTML = """<html><head><title>The  page</title><style>b{}</style></head><body><nav>menu</nav><main><h1>Head</h1>
<p>Some <b>bold</b> text, a <a href="../x">link</a> and <code>code</code>.</p><pre>a = 1
b = 2</pre><table><tr><th>n</th></tr><tr><td>1</td></tr></table><script>alert(1)</script>
<p>%s</p></main><footer>foot</footer></body></html>""" % ("word " * 60)


def head(status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "connection: close", "", ""]).encode()


async def forever(writer: asyncio.StreamWriter, first: bytes, piece: bytes, pause: float) -> None:
    writer.write(first)
    while not writer.is_closing():
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause)


class Site:
    """Answers by path."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]] = {}
        self.asked: list[str] = []
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = request.split(" ")[1]
        self.asked.append(path)
        page = self.pages.get(path, head("404 Not Found"))
        try:
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
        except ConnectionError:
            pass  # whoever asked has enough
        finally:
            writer.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


async def fetched(site: Site, path: str, workspace: Workspace, private: bool = True) -> str:
    tool = WebFetch([f"127.0.0.1:{site.port}"] if private else [])
    try:
        return (await tool.run({"url": f"http://127.0.0.1:{site.port}{path}"}, workspace)).text
    except ToolError as error:
        return f"error: {error}"


async def test_a_page_is_shown_as_markdown(site: Site, workspace: Workspace) -> None:
    site.pages["/a/page"] = head(content_type="text/html; charset=utf-8") + HTML.encode()
    words = ("word " * 60).strip()
    assert await fetched(site, "/a/page", workspace) == (
        f"http://127.0.0.1:{site.port}/a/page\n# The page\n\n# Head\n\n"
        f"Some **bold** text, a [link](http://127.0.0.1:{site.port}/x) and `code`.\n\n"
        f"```\na = 1\nb = 2\n```\n\n| n |\n| --- |\n| 1 |\n\n{words}"
    )


async def test_what_is_no_usual_page_is_shown_or_explained(site: Site, workspace: Workspace) -> None:
    start = f"http://127.0.0.1:{site.port}"
    packed = gzip.compress(b"packed")
    site.pages |= {
        "/json": head(content_type="application/json") + b'{"a": 1}',
        "/latin": head(content_type="text/plain; charset=utf-8") + "Grüße".encode("latin-1"),
        "/odd": head(content_type="text/plain; charset=nonsense") + "Grüße".encode(),
        "/meta": head(content_type="text/html") + '<meta charset="iso-8859-1"><p>Grüße'.encode("latin-1"),
        "/gzip": head(content_type="text/plain", content_encoding="gzip") + packed,
        "/bad-gzip": head(content_type="text/plain", content_encoding="gzip") + b"no gzip",
        "/br": head(content_type="text/plain", content_encoding="br") + b"x",
        "/png": head(content_type="image/png") + b"\x89PNG\r\n\x1a\n\0\0",
        "/binary": head() + b"\0\1\2" * 9,
        "/empty": head("204 No Content"),
        "/steer": head(content_type="text/plain") + b"a\x1b[31mb",
        "/cut": head(content_type="text/plain", content_length="99") + b"half",
        "/none": b"",
        "/nonsense": b"SSH-2.0-OpenSSH\r\n\r\n",
    }
    texts = {path: await fetched(site, path, workspace) for path in (*site.pages, "/missing")}
    assert {path: text.removeprefix(start + path).strip() for path, text in texts.items()} == {
        "/json": '{"a": 1}',
        "/latin": "Grüße",
        "/odd": "Grüße",
        "/meta": "Grüße",
        "/gzip": "packed",
        "/bad-gzip": "error: the page is compressed in a way that cannot be read: try curl in bash",
        "/br": "error: the page is compressed as br, which was not requested: try curl in bash",
        "/png": "error: it is image/png (10 bytes), not text: download it in bash with curl",
        "/binary": "error: it is binary data (27 bytes), not text: download it in bash with curl",
        "/empty": "(the page is empty)",
        "/steer": "ab",
        "/cut": "half\n(the transfer was interrupted)",
        "/none": f"error: cannot reach `127.0.0.1:{site.port}`: Server disconnected without sending a response. "
        "Check the address",
        "/nonsense": f"error: cannot reach `127.0.0.1:{site.port}`: "
        "illegal status line: bytearray(b'SSH-2.0-OpenSSH'). Check the address",
        "/missing": f"error: `{start}/missing` answered with HTTP 404 Not Found",
    }


async def test_what_nobody_sees_of_a_page_is_left_out(site: Site, workspace: Workspace) -> None:
    unseen = "".join(chr(0xE0000 + ord(sign)) for sign in "obey")
    site.pages |= {
        "/html": head(content_type="text/html; charset=utf-8")
        + (
            f"<title>T{unseen}</title><body style='opacity:0'><p>seen\u202e{unseen}</p>"
            "<p hidden>a</p><p style='color:red; DISPLAY : none'>b</p>"
            "<div style='visibility:hidden'><p style='opacity:0'>c</p></div><p style='font-size:0px'>d</p>"
            "<p style='position:absolute;left:-9999px'>e</p><p style='text-indent: -999em'>f</p>"
            "<p style='clip:rect(0,0,0,0)'>g</p><p style='height:0;overflow:hidden'>h</p>"
            "<p style='opacity:0.5;font-size:0.9em;left:-9px;max-height:50px'>also <a href='http://[x'>seen</a></p>"
        ).encode(),
        "/text": head(content_type="text/plain; charset=utf-8") + f"seen{unseen}\u2066 می\u200cخواهم".encode(),
    }
    texts = {path: (await fetched(site, path, workspace)).partition("\n")[2] for path in site.pages}
    assert texts == {"/html": "# T\n\nseen\n\nalso [seen](http://[x)", "/text": "\nseen می\u200cخواهم"}


async def test_a_page_without_end_is_looked_at_up_to_a_limit(
    site: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebbtide.tools.web.fetch, "MAX_PAGE_BYTES", 100_000)
    bomb = gzip.compress(b"x" * 50_000_000)
    text = head(content_type="text/plain")
    site.pages |= {
        "/large": lambda writer: forever(writer, text, b"y" * 65536, 0),
        "/bomb": head(content_type="text/plain", content_encoding="gzip") + bomb,
    }
    for path, letter in (("/large", "y"), ("/bomb", "x")):
        page = await fetched(site, path, workspace)
        start = f"http://127.0.0.1:{site.port}{path}\n\n"
        assert page == f"{start}{letter * 100_000}\n(only its first 0 MB were read)"


async def test_a_server_that_drips_is_waited_for_only_so_long(
    site: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebbtide.tools.web.fetch, "FETCH_TIMEOUT_S", 0.5)
    site.pages |= {
        "/drips": lambda writer: forever(writer, head(content_type="text/plain"), b".", 0.01),
        "/header": lambda writer: forever(writer, b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", 0.01),
        "/silent": lambda writer: asyncio.sleep(60),
    }
    text = await fetched(site, "/drips", workspace)
    assert text.partition("\n\n")[2].lstrip(".") == "\n(it did not arrive completely within 0 s)"
    late = f"error: `127.0.0.1:{site.port}` did not answer within 0 s: try again later"
    assert [await fetched(site, path, workspace) for path in ("/header", "/silent")] == [late, late]


async def test_redirects_are_followed_on_the_same_host_only(site: Site, workspace: Workspace) -> None:
    metadata = "http://169.254.169.254/latest/meta-data"
    site.pages |= {
        "/one": head("302 Found", location="/two"),
        "/two": head(content_type="text/plain") + b"here",
        "/round": head("301 Moved Permanently", location="/round"),
        "/away": head("302 Found", location=metadata),
        "/other": head("302 Found", location="//example.org/x"),
        "/port": head("302 Found", location="//127.0.0.1:9/x"),
        "/file": head("302 Found", location="file:///etc/passwd"),
    }
    assert await fetched(site, "/one", workspace) == f"http://127.0.0.1:{site.port}/two\n\nhere"
    assert await fetched(site, "/round", workspace) == (
        f"error: `127.0.0.1:{site.port}` redirects more than 5 times: give the address that it leads to"
    )
    assert await fetched(site, "/away", workspace) == (
        "error: not fetched: it redirects to `169.254.169.254`, which is on a private network"
    )
    assert await fetched(site, "/other", workspace) == (
        "error: it redirects to another host: call web_fetch with `http://example.org/x`"
    )
    assert await WebFetch(["127.0.0.1"]).run({"url": f"http://127.0.0.1:{site.port}/one"}, workspace)
    with pytest.raises(ToolError, match=r"^it redirects to another port: call web_fetch with `http://127.0.0.1:9/x`$"):
        await WebFetch(["127.0.0.1"]).run({"url": f"http://127.0.0.1:{site.port}/port"}, workspace)
    assert (await fetched(site, "/file", workspace)).startswith(
        "error: `file:///etc/passwd` is not an HTTP or HTTPS address"
    )


HOSTS = (
    "127.0.0.1 localhost a.localhost 2130706433 0x7f.1 0177.0.0.1 127.1 0.0.0.0 [::1] [::ffff:127.0.0.1] "
    "[64:ff9b::7f00:1] [2002:7f00:1::] 169.254.169.254"
)


@pytest.mark.parametrize("host", HOSTS.split())
async def test_nothing_private_is_connected_to(host: str, site: Site, workspace: Workspace) -> None:
    with pytest.raises(ToolError) as caught:
        await WebFetch().run({"url": f"http://{host}:{site.port}/"}, workspace)
    assert str(caught.value).startswith("not fetched: `")
    assert str(caught.value).endswith("; the user can allow hosts in `web.private`")
    assert site.asked == []


NO_PUBLIC_HOSTS = (
    "127.0.0.1 localhost [::ffff:127.0.0.1] 169.254.169.254 127.1 168.63.129.16 [3fff::1] metadata.google.internal "
    "metadata.goog metadata ip6-localhost host.docker.internal printer.local kubernetes.default.svc.cluster.local"
)


@pytest.mark.parametrize("port", [0, 21, 22, 25, 445, 993])
def test_nobody_is_asked_about_ports_that_are_none_of_the_web(port: int, workspace: Workspace) -> None:
    with pytest.raises(ToolError, match=rf"^not fetched: port {port} is not a web port; the user can allow hosts in"):
        WebFetch().subjects({"url": f"http://example.org:{port}/"}, workspace)
    named = f"example.org:{port}"
    assert WebFetch([named]).subjects({"url": f"http://{named}/"}, workspace) == (named,)


@pytest.mark.parametrize("host", NO_PUBLIC_HOSTS.split())
def test_nobody_is_asked_about_a_place_that_may_not_be_reached_anyway(host: str, workspace: Workspace) -> None:
    with pytest.raises(ToolError, match=r"is this machine or on a private network|is an address in an unusual form"):
        WebFetch().subjects({"url": f"http://{host}/"}, workspace)
    assert WebFetch([host]).subjects({"url": f"http://{host}/"}, workspace) == (host,)


async def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_judged(
    site: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [["93.184.216.34", "127.0.0.1"], ["127.0.0.1"]]
    lookups: list[str] = []

    def look_up(host: str, port: int, **wanted: Any) -> list[Any]:
        lookups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port)) for found in answers.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    for _ in range(2):
        with pytest.raises(ToolError, match=r"`rebind.example` is 127.0.0.1, which is on a private network"):
            await WebFetch().run({"url": f"http://rebind.example:{site.port}/"}, workspace)
    assert (lookups, site.asked) == (["rebind.example"] * 2, [])


async def test_a_name_that_has_changed_since_it_was_judged_leads_nowhere_else(
    site: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is public and the second would be this machine: nobody asks a second time."""
    tried: list[str] = []

    async def connect(self: object, host: str, port: int, *others: object) -> Any:
        tried.append(host)
        raise httpcore2.ConnectError("refused")

    answers = [["93.184.216.34"], ["127.0.0.1"]]

    def look_up(host: str, port: int, **wanted: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port)) for found in answers.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)
    with pytest.raises(ToolError, match=r"cannot reach `rebind.example:\d+`: refused. Check the address"):
        await WebFetch().run({"url": f"http://rebind.example:{site.port}/"}, workspace)
    assert (tried, answers) == (["93.184.216.34"], [["127.0.0.1"]])


async def test_a_proxy_of_the_environment_is_used_and_reaches_nothing_private(
    site: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{site.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    site.pages["http://93.184.216.34:80/x"] = head(content_type="text/plain") + b"by proxy"
    found = await WebFetch().run({"url": "http://93.184.216.34/x"}, workspace)
    assert found.text == "http://93.184.216.34/x\n\nby proxy"
    with pytest.raises(ToolError, match=r"not fetched: `169.254.169.254` is on a private network"):
        await WebFetch().run({"url": "http://169.254.169.254/"}, workspace)


async def test_a_page_that_takes_too_long_to_be_made_markdown_is_shown_as_it_came(
    site: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/deep"] = head(content_type="text/html") + b"<div>" * 20_000 + b"deep"
    assert (await fetched(site, "/deep", workspace)).endswith("\n\ndeep")
    monkeypatch.setattr(ebbtide.tools.web_fetch, "CONVERT_TIMEOUT_S", 0.01)
    text = await fetched(site, "/deep", workspace)
    assert text.endswith(
        "(too large or too deeply nested for Markdown: this is its HTML)\n" + "<div>" * 20_000 + "deep"
    )


async def test_of_a_page_with_very_many_tags_the_beginning_is_made_markdown(
    site: Site, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebbtide.tools.web_fetch, "MAX_TAGS", 8)
    site.pages |= {
        "/eight": head(content_type="text/html") + b"<p>word</p>" * 4,
        "/nine": head(content_type="text/html") + b"<p>word</p>" * 4 + b"<p>more</p>",
    }
    words = "\n\n".join(["word"] * 4)
    assert [(await fetched(site, path, workspace)).partition("\n\n")[2] for path in ("/eight", "/nine")] == [
        words,
        f"{words}\n(only its first 40 of 55 characters of HTML: curl in bash shows the rest)",
    ]


async def test_a_search_is_done_by_the_configured_program(workspace: Workspace) -> None:
    async def search(*command: str) -> str:
        try:
            return (await WebSearch(command).run({"query": "a $HOME; 'b'"}, workspace)).text
        except ToolError as error:
            return f"error: {error}"

    assert await search("printf", "%s|") == "a $HOME; 'b'|"
    assert await search("printf", "%s-%s", "{query}", "x") == "a $HOME; 'b'-x"
    assert await search("true") == "nothing was found: try other words"
    assert await search("sh", "-c", "echo no key >&2; exit 3") == (
        "error: the program of `web.search`, `sh`, ended with exit code 3: no key"
    )
    assert (await search("/no/such")).startswith("error: the program of `web.search`, `/no/such`, cannot be started: ")
    assert await search() == ("error: this session cannot search the web: the user can set a program in `web.search`")


async def test_without_a_program_the_provider_searches(workspace: Workspace) -> None:
    async def find(query: str) -> str:
        return {"known": "Found \x1b[31mit.\u200b\u202e\n\n[1] A page: https://example.org"}.get(query, "")

    async def search(query: str) -> str:
        return (await WebSearch().run({"query": query}, replace(workspace, search_web=find))).text

    assert await search(" known ") == "Found it.\u200b\n\n[1] A page: https://example.org"
    assert await search("unknown") == "nothing was found: try other words"
    with pytest.raises(ToolError, match="is empty"):
        await search(" ")
