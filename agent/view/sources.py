"""Extracts the sources that a reply cites from the providers' citation formats."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.messages import Assistant, Native, Source, Text

MAX_LISTED_SOURCES = 20
"""Maximum number of sources to list for a reader."""
_WEB_ADDRESSES = ("http://", "https://")
_NUMBERED_LISTS = ("citations", "search_results")
"""Fields of Chat Completions whose entries the text cites by number. Perplexity replaces the first with the second."""


def cited_sources(message: Assistant) -> tuple[Source, ...]:
    """Return the web pages that a reply cites. They keep the order of the provider's list, because marks such as `[1]`
    in the text refer to it. A page is repeated only if that list repeats its address, and an entry of the list without
    a web address becomes a source without one (Perplexity)."""
    titles: dict[str, str] = {}
    listed_urls: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            listed_urls += _listed_urls(part.native)
            for source in _sources_in(part.native):
                titles[source.url] = titles.get(source.url) or source.title
    known_urls = frozenset(listed_urls)
    urls = (*listed_urls, *(url for url in titles if url not in known_urls))
    return tuple(Source(url, titles.get(url, "")) for url in urls)


def sources_text(sources: Sequence[Source]) -> str:
    """Return the first sources as a numbered list with a heading. A source without an address only takes a number."""
    numbered_sources = [(number, source) for number, source in enumerate(sources, 1) if source.url]
    lines = [
        f"[{number}] {f'{source.title}: ' if source.title else ''}{source.url}"
        for number, source in numbered_sources[:MAX_LISTED_SOURCES]
    ]
    unlisted_count = len(numbered_sources) - len(lines)
    return "\n".join(("Sources:", *lines, *((f"and {unlisted_count:,} more",) if unlisted_count else ())))


def _listed_urls(native: Native | None) -> Sequence[str]:
    """Return the addresses of the list that the text cites by number, up to the last address. An entry without an
    address is an empty string, so that the others keep their numbers."""
    if native is None or "type" in native:  # the other APIs attach citations to pieces of text, without numbers
        return ()
    for name in _NUMBERED_LISTS:
        entries = native.get(name)
        urls = [_first_url(entry) for entry in entries] if isinstance(entries, list) else []
        while urls and not urls[-1]:
            urls.pop()
        if urls:
            return urls
    return ()


def _first_url(entry: object) -> str:
    return next((source.url for source in _sources_in(entry)), "")


def _sources_in(value: object) -> Iterator[Source]:
    match value:
        case str() if _is_web_address(value):  # Perplexity's `citations`
            yield Source(value)
        case {"url_citation": citation}:  # Chat Completions
            yield from _sources_in(citation)
        case {"url": str() as url, **fields} if _is_web_address(url):
            title = fields.get("title")
            yield Source(url, " ".join(title.split()) if isinstance(title, str) else "")
        case dict():
            for name in (*_NUMBERED_LISTS, "annotations", "content"):
                yield from _sources_in(value.get(name))
        case list():
            for item in value:
                yield from _sources_in(item)
        case _:
            pass


def _is_web_address(text: str) -> bool:
    return text.startswith(_WEB_ADDRESSES) and not any(character.isspace() for character in text)
