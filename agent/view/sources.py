"""Extracts the sources that a reply cites from the providers' citation formats."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.messages import Assistant, Source, Text

_WEB_ADDRESSES = ("http://", "https://")


def cited_sources(message: Assistant) -> tuple[Source, ...]:
    """Return the web pages that a reply cites, without duplicates. They keep the order of the provider's list, because
    marks such as `[1]` in the text refer to it."""
    titles: dict[str, str] = {}
    for part in message.parts:
        if isinstance(part, Text):
            for source in _sources_in(part.native):
                titles[source.url] = titles.get(source.url) or source.title
    return tuple(Source(url, title) for url, title in titles.items())


def sources_text(sources: Sequence[Source]) -> str:
    """Return the sources as a numbered list with a heading."""
    lines = (
        f"[{number}] {f'{source.title}: ' if source.title else ''}{source.url}"
        for number, source in enumerate(sources, 1)
    )
    return "\n".join(("Sources:", *lines))


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
