"""The process that converts HTML from standard input to Markdown and prints one JSON object. Only this process loads
the HTML libraries."""

import json
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_DROPPED_TAGS = (
    "script", "style", "noscript", "template", "iframe", "svg", "canvas", "nav", "footer", "object", "video", "audio",
)  # fmt: skip
_INVISIBLE_STYLE = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden|clip\s*:\s*rect\(\s*0|color\s*:\s*transparent"
    r"|(?:left|right|top|text-indent|margin-left|margin-top)\s*:\s*-\d{3}"
    r"|(?:font-size|opacity|(?:max-)?(?:width|height))\s*:\s*0(?:\.0*)?[a-z%]*\s*(?:;|!|$))",
    re.IGNORECASE,
)
"""Matches styles that make content invisible on the page."""
_MIN_MAIN_CHARS = 200
"""Minimum number of characters for a `main` or `article` element to count as the page's main content."""


def main(request_json: str) -> None:
    """Print a page's `title` and `text` in UTF-8. `url` in `request_json` is the base URL for its links."""
    from bs4 import BeautifulSoup  # noqa: PLC0415  # deferred: import errors are reported like read errors
    from markdownify import MarkdownConverter  # noqa: PLC0415  # deferred: as above

    address = json.loads(request_json)["url"]
    soup = BeautifulSoup(sys.stdin.buffer.read(), "html.parser", from_encoding="utf-8")
    title = " ".join(soup.title.get_text().split())[:300] if soup.title else ""
    for tag in soup.find_all(_DROPPED_TAGS):
        tag.decompose()
    for tag in [*soup.find_all(hidden=True), *soup.find_all(style=_INVISIBLE_STYLE)]:
        if not tag.decomposed and tag.name not in ("html", "body"):
            tag.decompose()
    for link in soup.find_all("a", href=True):
        with suppress(ValueError):  # not a valid link
            link["href"] = urljoin(address, str(link["href"]))
    for image in soup.find_all("img"):
        if str(image.get("src", "")).startswith("data:"):
            image.decompose()
    content = _main_content(soup)
    try:
        text = MarkdownConverter(heading_style="ATX", bullets="-", autolinks=True).convert_soup(content)
    except RecursionError:  # the tags are nested too deeply
        text = content.get_text("\n")
    text = re.sub(r"[ \t]+\n", "\n", str(text))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    print(json.dumps({"title": title, "text": text.encode("utf-8", "replace").decode()}), flush=True)


def _main_content(soup: "BeautifulSoup") -> "Tag":
    """Return the element with the page's main content."""
    for name in ("main", "article"):
        elements = soup.find_all(name)
        if len(elements) == 1 and len(elements[0].get_text(strip=True)) >= _MIN_MAIN_CHARS:
            return elements[0]
    return soup.body or soup
