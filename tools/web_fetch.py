"""The `web_fetch` tool: fetches a public web page as Markdown."""

import asyncio
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import plain, printable
from ebbtide.tools.schema import object_of, text

if TYPE_CHECKING:  # a type only: see `WebFetch.run`
    from ebbtide.tools.web.fetch import Page

CONVERT_TIMEOUT_S = 10.0
"""Seconds for converting a page to Markdown."""
MAX_TAGS = 60_000
"""Maximum number of tags in a converted page. Tags dominate the time: this many take about 1.5 s, and large articles
have fewer."""

_INVISIBLE = regex("[\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e0fff]")
"""Invisible or reordering characters, which can hide instructions to a model."""
_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "sql", "x-ndjson", "graphql")


class WebFetch:
    name = "web_fetch"
    description = read_description(__file__)
    effect: Effect = "fetch"
    schema = object_of({"url": {"type": "string"}}, required=("url",))

    def __init__(self, private: Sequence[str] = ()) -> None:
        """`private`: hosts, with or without ports, on private networks that the user allows."""
        self._private = tuple(private)

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        from ebbtide.tools.web.addresses import address_of, check_is_public  # noqa: PLC0415  # deferred: few runs fetch pages

        address = address_of(text(arguments, "url"))
        check_is_public(address, self._private)  # fail before the user is asked about it
        return (address.place,)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from ebbtide.tools.web.addresses import address_of  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.web.fetch import fetch  # noqa: PLC0415  # deferred: as above

        page = await fetch(address_of(text(arguments, "url")), self._private)
        title, said = (_INVISIBLE.sub("", part) for part in await _as_text(page))
        notes = [f"({page.left_out})"] if page.left_out else []
        return Result("\n".join([printable(str(page.address)), *([f"# {title}"] if title else []), "", said, *notes]))


async def _as_text(page: "Page") -> tuple[str, str]:
    """Return the title, if any, and the text of the page. Raises `ToolError`."""
    from ebbtide.tools.files.text import binary_kind  # noqa: PLC0415  # deferred: few runs fetch pages
    from ebbtide.tools.web.charset import decode_page  # noqa: PLC0415  # deferred: as above

    if not page.content.strip():
        return "", "(the page is empty)"
    known = page.media_type.startswith("text/") or page.media_type.partition("/")[2].split("+")[-1] in _TEXTS
    kind = binary_kind(page.content)
    is_packed = kind is not None and kind != "binary data"
    text = (
        None
        if is_packed
        else await asyncio.to_thread(decode_page, page.content, page.charset, is_cut=bool(page.left_out))
    )
    if text is None or (page.media_type and not known and page.media_type not in _HTML):
        what = page.media_type or kind
        raise ToolError(f"it is {what} ({len(page.content):,} bytes), no text: download it in bash with curl")
    start = text[:512].lstrip().lower()
    if page.media_type in _HTML or (not page.media_type and start.startswith(("<!doctype html", "<html"))):
        return await _convert_html(text, page)
    return "", plain(text)


async def _convert_html(text: str, page: "Page") -> tuple[str, str]:
    from ebbtide.tools.documents.converter import run_converter  # noqa: PLC0415  # deferred: few runs fetch pages

    end = _end_of_tags(text)
    with tempfile.TemporaryFile() as file:
        file.write(text[:end].encode("utf-8", "replace"))
        file.seek(0)
        done = await run_converter(
            f"{__package__}.documents.web_page", {"url": str(page.address)}, file, CONVERT_TIMEOUT_S
        )
    if not done.records:
        return "", f"(too large or too deeply nested for Markdown: this is its HTML)\n{plain(text)}"
    said = plain(str(done.records[0]["text"])) or "(the page shows no text without scripts)"
    left = f"\n(only its first {end:,} of {len(text):,} characters of HTML: curl in bash has the rest)"
    return plain(str(done.records[0]["title"])), said + (left if end < len(text) else "")


def _end_of_tags(text: str) -> int:
    """Return the end of the part with as many tags as may be converted."""
    at = -1
    for _ in range(MAX_TAGS if text.count("<") > MAX_TAGS else 0):
        at = text.index("<", at + 1)
    return at if at >= 0 else len(text)
