"""The `web_fetch` tool: fetches a public web page as Markdown."""

import asyncio
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ebbtide.tools import documents, files, web
from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import printable_name, terminal_text
from ebbtide.tools.tool_traits import ToolTraits, text_argument

if TYPE_CHECKING:  # for type checking only: imported in `WebFetch.run` when needed
    from ebbtide.tools.web.fetch import Page

CONVERT_TIMEOUT_S = 10.0
"""Time limit for converting a page to Markdown, in seconds."""
MAX_TAGS = 60_000
"""Maximum number of tags converted per page. Conversion time depends mostly on the number of tags. This many take about
1.5 s, and even long articles have fewer."""

INVISIBLE = regex("[\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e0fff]")
"""Characters that are invisible or change the reading order. They can hide instructions to a model."""
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_TEXT_SUBTYPES = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "sql", "x-ndjson", "graphql")


_URL = regex(r"https?://[^\s<>\"'`)\]}]+")


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    urls = set(_URL.findall(prompt)) if isinstance(prompt := arguments.get("prompt"), str) else set()
    if len(urls) == 1 and "url" not in arguments:
        arguments["url"] = urls.pop().rstrip(".,;:!?")


class WebFetch:
    name = "web_fetch"
    description = read_description(__file__)
    effect: Effect = "fetch"
    traits = ToolTraits(
        role="fetch_page",
        acp_kind="fetch",
        get_subject=partial(text_argument, name="url"),
        lookup_words=("fetched", "page"),
        rule_noun="pages",
        aliases="fetch fetch_url fetch_webpage read_web_page",
        argument_aliases={"url": "uri link urls"},
        adapt_arguments=_adapt_arguments,
        claude_names=("WebFetch",),
        small_window_policy="optional",
    )
    schema = object_schema({"url": {"type": "string"}}, required=("url",))

    def __init__(self, allowed_private_hosts: Sequence[str] = ()) -> None:
        """`allowed_private_hosts`: hosts on private networks that the user permits, with or without a port."""
        self._allowed_private_hosts = tuple(allowed_private_hosts)

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        address = web.addresses.parse_web_address(get_text(arguments, "url"))
        web.addresses.require_public(address, self._allowed_private_hosts)  # fail before the user is asked
        return (address.host_and_port,)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        page = await web.fetch.fetch_page(
            web.addresses.parse_web_address(get_text(arguments, "url")), self._allowed_private_hosts
        )
        title, content = (INVISIBLE.sub("", page_part) for page_part in await _page_text(page))
        notes = [f"({page.incomplete_reason})"] if page.incomplete_reason else []
        return Result(
            "\n".join([printable_name(str(page.address)), *([f"# {title}"] if title else []), "", content, *notes])
        )


async def _page_text(page: "Page") -> tuple[str, str]:
    """Extract the page's title, if any, and its text. Raises `ToolError`."""
    if not page.content.strip():
        return "", "(the page is empty)"
    is_text_type = (
        page.media_type.startswith("text/") or page.media_type.partition("/")[2].split("+")[-1] in _TEXT_SUBTYPES
    )
    kind = files.text.binary_kind(page.content)
    is_known_binary = kind is not None and kind != "binary data"
    text = (
        None
        if is_known_binary
        else await asyncio.to_thread(
            web.charset.decode_page, page.content, page.charset, is_truncated=bool(page.incomplete_reason)
        )
    )
    if text is None or (page.media_type and not is_text_type and page.media_type not in _HTML_TYPES):
        type_text = page.media_type or kind
        raise ToolError(f"it is {type_text} ({len(page.content):,} bytes), not text: download it in bash with curl")
    start = text[:512].lstrip().lower()
    if page.media_type in _HTML_TYPES or (not page.media_type and start.startswith(("<!doctype html", "<html"))):
        return await _convert_html(text, page)
    return "", terminal_text(text)


async def _convert_html(text: str, page: "Page") -> tuple[str, str]:
    converted_length = _convertible_length(text)
    with tempfile.TemporaryFile() as file:
        file.write(text[:converted_length].encode("utf-8", "replace"))
        file.seek(0)
        conversion = await documents.converter.run_converter(
            f"{__package__}.documents.html_process", {"url": str(page.address)}, file, CONVERT_TIMEOUT_S
        )
    if not conversion.records:
        return "", f"(too large or too deeply nested for Markdown: this is its HTML)\n{terminal_text(text)}"
    content = terminal_text(str(conversion.records[0]["text"])) or "(the page shows no text without scripts)"
    omitted_note = (
        f"\n(only its first {converted_length:,} of {len(text):,} characters of HTML: curl in bash shows the rest)"
    )
    return terminal_text(str(conversion.records[0]["title"])), content + (
        omitted_note if converted_length < len(text) else ""
    )


def _convertible_length(text: str) -> int:
    """Get the length of the longest prefix with at most `MAX_TAGS` tags."""
    offset = -1
    for _ in range(MAX_TAGS if text.count("<") > MAX_TAGS else 0):
        offset = text.index("<", offset + 1)
    return offset if offset >= 0 else len(text)
