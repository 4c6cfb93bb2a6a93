"""Extracts the sources that a reply cites from the providers' citation formats."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.messages import Assistant, Native, Source, Text

_WEB_ADDRESSES = ("http://", "https://")


def cited_sources(message: Assistant) -> tuple[Source, ...]:
    """Return the web pages that a reply cites. They keep the order of the provider's list, because marks such as `[1]`
    in the text refer to it. A page is repeated only if that list repeats its address (Perplexity)."""
    titles: dict[str, str] = {}
    listed_urls: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            listed_urls += _listed_urls(part.native)
            for source in _sources_in(part.native):
                titles[source.url] = titles.get(source.url) or source.title
    known_urls = frozenset(listed_urls)
    urls = (*listed_urls, *(url for url in titles if url not in known_urls))
    return tuple(Source(url, titles[url]) for url in urls)


def sources_text(sources: Sequence[Source]) -> str:
    """Return the sources as a numbered list with a heading."""
    lines = (
        f"[{number}] {f'{source.title}: ' if source.title else ''}{source.url}"
        for number, source in enumerate(sources, 1)
    )
    return "\n".join(("Sources:", *lines))


def _listed_urls(native: Native | None) -> Iterator[str]:
    """Yield the addresses in a list of addresses."""
    citations = (native or {}).get("citations")
    for citation in citations if isinstance(citations, list) else ():
        if isinstance(citation, str) and _is_web_address(citation):
            yield citation


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
            for name in ("citations", "search_results", "annotations", "content"):
                yield from _sources_in(value.get(name))
        case list():
            for item in value:
                yield from _sources_in(item)
        case _:
            pass


def _is_web_address(text: str) -> bool:
    return text.startswith(_WEB_ADDRESSES) and not any(character.isspace() for character in text)
