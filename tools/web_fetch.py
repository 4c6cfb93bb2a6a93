"""The `web_fetch` tool: a page of the public web as Markdown."""

import codecs
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.base import Arguments, Effect, Result, ToolError, Workspace, description_beside
from tools.outputs.plain_text import plain, printable
from tools.schema import object_of, text

if TYPE_CHECKING:  # a type only: see `WebFetch.run`
    from tools.web.fetch import Page

CONVERTING = 20.0
"""Seconds for a page to become Markdown."""

_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "sql", "x-ndjson", "graphql")


class WebFetch:
    name = "web_fetch"
    description = description_beside(__file__)
    effect: Effect = "fetch"
    schema = object_of({"url": {"type": "string"}}, required=("url",))

    def __init__(self, private: Sequence[str] = ()) -> None:
        """`private`: hosts, or hosts and ports, on private networks that the user lets it reach."""
        self._private = tuple(private)

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        from tools.web.addresses import address_of  # noqa: PLC0415  # deferred: few runs fetch pages

        return (address_of(text(arguments, "url")).place,)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from tools.web.addresses import address_of  # noqa: PLC0415  # deferred: as above
        from tools.web.fetch import fetch  # noqa: PLC0415  # deferred: as above

        page = await fetch(address_of(text(arguments, "url")), self._private)
        title, said = await _as_text(page)
        notes = [f"({page.left_out})"] if page.left_out else []
        return Result("\n".join([printable(str(page.address)), *([f"# {title}"] if title else []), "", said, *notes]))


async def _as_text(page: "Page") -> tuple[str, str]:
    """The title, where there is one, and what the page says. Raises `ToolError`."""
    from tools.files.text import binary_kind  # noqa: PLC0415  # deferred: few runs fetch pages

    if not page.content.strip():
        return "", "(the page is empty)"
    known = page.media_type.startswith("text/") or page.media_type.partition("/")[2].split("+")[-1] in _TEXTS
    kind = binary_kind(page.content)
    wide = page.charset.startswith(("utf-16", "utf-32"))
    if (kind is not None and not wide) or (page.media_type and not known and page.media_type not in _HTML):
        what = page.media_type or kind
        raise ToolError(f"it is {what} ({len(page.content):,} bytes), no text: download it in bash with curl")
    charset = page.charset if _is_known(page.charset) else ""
    start = page.content[:512].lstrip().lower()
    if page.media_type in _HTML or (not page.media_type and start.startswith((b"<!doctype html", b"<html"))):
        return await _converted(page, charset)
    return "", _plain(page.content, charset)


def _plain(content: bytes, charset: str) -> str:
    """The text of the bytes, as the server says or, where it is wrong, as they look."""
    from tools.files.text import decode, showable  # noqa: PLC0415  # deferred: few runs fetch pages

    try:
        return plain(content.decode(charset or "utf-8"))
    except UnicodeDecodeError:
        return plain(showable(decode(content).text))


async def _converted(page: "Page", charset: str) -> tuple[str, str]:
    from tools.documents.converter import converted  # noqa: PLC0415  # deferred: few runs fetch pages

    with tempfile.TemporaryFile() as file:
        file.write(page.content)
        file.seek(0)
        request = {"charset": charset, "url": str(page.address)}
        done = await converted("tools.documents.web_page", request, file, CONVERTING)
    if not done.records:
        return "", f"(too large or too deep to be made Markdown: this is its HTML)\n{_plain(page.content, charset)}"
    found = done.records[0]
    return plain(str(found["title"])), plain(str(found["text"])) or "(the page shows no text without scripts)"


def _is_known(charset: str) -> bool:
    try:
        return bool(charset) and codecs.lookup(charset)._is_text_encoding  # a transformation such as base64 is none
    except LookupError:
        return False
