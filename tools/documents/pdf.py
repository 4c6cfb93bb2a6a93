"""Pages of a PDF as text, read in a separate process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebbtide.tools.base import ReadLimits, Result, ToolError
from ebbtide.tools.documents.converter import run_converter
from ebbtide.tools.files.read_write import open_regular
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import terminal_text

READ_TIMEOUT_S = 30.0
"""Timeout for reading, in seconds. Pages read before the timeout are shown."""


async def read_pages(path: Path, name: str, offset: int, limit: int, limits: ReadLimits) -> Result:
    """Read pages starting at number `offset`: as many as fit, but at least one. Raises `ToolError`."""
    request = {"first_page": offset, "last_page": offset + limit - 1, "max_bytes": limits.max_bytes}
    with open_regular(path) as (file, _):
        result = await run_converter(f"{__package__}.pdf_process", request, file, READ_TIMEOUT_S)
    header, *pages = result.records or ({"problem": "it takes too much time or memory"},)
    if (problem := header.get("problem")) == "encrypted":
        raise ToolError(f"`{name}` is encrypted: ask for its password, then decrypt it in bash with qpdf --decrypt")
    if problem is not None:
        raise ToolError(f"`{name}` cannot be read as a PDF ({terminal_text(str(problem))}): try pdftotext in bash")
    page_count = int(header["pages"])
    if offset > page_count:
        raise ToolError(f"`{name}` has {pluralize(page_count, 'page')}: offset={offset} is beyond its end")
    if not pages:
        raise ToolError(f"page {offset} of `{name}` takes too much time or memory: try pdftotext in bash")
    return _build_pages_result(
        pages, page_count, offset, name, limits, is_cut_short=result.has_timed_out or result.has_failed
    )


def _build_pages_result(
    pages: Sequence[Mapping[str, Any]],
    page_count: int,
    offset: int,
    name: str,
    limits: ReadLimits,
    *,
    is_cut_short: bool,
) -> Result:
    if not any(page.get("text", "").strip() or "problem" in page for page in pages):
        pages_text = f"pages {offset}-{offset + len(pages) - 1}" if len(pages) > 1 else f"page {offset}"
        advice = "convert them to images in bash with `pdftoppm -r 100 -png` and read those"
        return Result(
            f"{pages_text} of {page_count} of `{name}` contain no text, so they are images, as in a scan: {advice}",
            extent=Extent("pages", len(pages), page_count, offset),
        )
    texts = list[str]()
    byte_count = 0
    for page in pages:
        texts.append(_page_text(page))
        byte_count += len(texts[-1].encode()) + 1
        if byte_count > limits.max_bytes and len(texts) > 1:
            del texts[-1]
            break
    full_text = "\n".join(texts)
    text = full_text.encode()[: limits.max_bytes].decode("utf-8", "ignore")
    last_page = offset + len(texts) - 1
    note = ""
    if last_page < page_count or offset > 1:
        continuation = f"; go on with offset={last_page + 1}" if last_page < page_count else ""
        note = f"\n(pages {offset}-{last_page} of {page_count}{continuation})"
    if is_cut_short:
        note += f"\n(page {last_page + 1} takes too much time or memory)"
    extent = Extent("pages", len(texts), page_count, offset)
    uncut_text = f"{full_text}{note}" if text != full_text else None
    return Result(f"{text}{'… [cut]' if uncut_text else ''}{note}", full_text=uncut_text, extent=extent)


def _page_text(page: Mapping[str, Any]) -> str:
    text = page.get("text", "") if "problem" not in page else f"(it cannot be read: {page['problem']})"
    return f"[page {page['page']}]\n{terminal_text(text).strip() or '(no text)'}"
