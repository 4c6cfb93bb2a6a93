"""Converts the results of a provider's own web search to text with numbered sources.

Anthropic sends the results of each search, and the cited pages with each part of the answer. OpenAI sends the addresses
that it used, and marks the links in its answer; so does xAI, whose titles may be the numbers of its links. The replies
of other providers arrive in one of these forms (`wires/search_adapters.py`).
"""

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.agent.messages import AssistantPart, ProviderItem, Text
from ebbtide.agent.providers.base import is_web_search_result
from ebbtide.tools.lazy import dataclass

MAX_SOURCES = 20
"""Maximum number of sources to list, unless the answer cites more."""

ERROR_SENTENCES: Mapping[str, str] = {
    "invalid_tool_input": "the provider refused the query: word it differently",
    "max_uses_exceeded": "the query needs more searches than one call may use: ask for less at once",
    "query_too_long": "the query is too long: shorten it",
    "request_too_large": "the results are too long for the model: ask for something more specific",
    "too_many_requests": "the provider has too many searches to do: wait a minute, then try again",
    "unavailable": "the provider's search is not available at the moment: try again later",
}
"""Explanations of Anthropic's error codes, each with advice."""


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page that a search found."""

    url: str
    title: str = ""
    age: str = ""
    """When the page was last changed, in the provider's words; empty if unknown."""

    @property
    def line(self) -> str:
        named = f"{self.title}: {self.url}" if self.title not in ("", self.url) else self.url
        return f"{named} ({self.age})" if self.age else named


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The results of a reply's web searches, and the reasons for failures."""

    text: str
    """The model's answer, in which `[1]` cites the first source."""
    sources: tuple[FoundPage, ...] = ()
    queries: tuple[str, ...] = ()
    """The queries that the model sent to the search."""
    problems: tuple[str, ...] = ()
    """Why searches failed, one sentence each."""
    has_searched: bool = False
    """Whether a search succeeded, even if it found nothing."""


class _Sources:
    """Numbers the sources in the order in which they are added."""

    def __init__(self) -> None:
        self.by_url: dict[str, FoundPage] = {}

    def add(self, source: FoundPage) -> int:
        """Return the source's number. Add the source if it is new; otherwise, fill in missing details."""
        known = self.by_url.get(source.url, source)
        self.by_url[source.url] = FoundPage(source.url, known.title or source.title, known.age or source.age)
        return list(self.by_url).index(source.url) + 1


def read_search_report(parts: Sequence[AssistantPart]) -> SearchReport:
    """Parse the parts of a reply, including its continuations. Text before the first search is dropped if any text
    follows it. Missing fields and nulls are skipped, because servers may omit any field."""
    sources = _Sources()
    sections, first_section = [""], 0
    for part in parts:
        if isinstance(part, Text):
            sections[-1] += "".join(_cited_text(part, sources))
        elif isinstance(part, ProviderItem):
            sections.append("")
            first_section = first_section or (len(sections) - 1 if is_web_search_result(part) else 0)
    texts = [section.strip() for section in sections[first_section:] if section.strip()]
    text = "\n\n".join(texts or [section.strip() for section in sections if section.strip()])
    cited_count = len(sources.by_url)
    results = [part.native for part in parts if isinstance(part, ProviderItem) and is_web_search_result(part)]
    for result in results:
        for source in _found_sources(result):
            sources.add(source)
    problems = [_problem_of(result) for result in results]
    return SearchReport(
        text,
        tuple(sources.by_url.values())[: max(cited_count, MAX_SOURCES)],
        tuple(dict.fromkeys(query for part in parts if isinstance(part, ProviderItem) for query in _queries(part))),
        tuple(dict.fromkeys(filter(None, problems))),
        not all(problems),
    )


def _cited_text(part: Text, sources: _Sources) -> Iterator[str]:
    """Yield the text, and the numbers of the sources that it cites."""
    native = part.native or {}
    content = native.get("content")
    if isinstance(content, list):
        for piece in _tables(content):
            yield _with_numbers(str(piece.get("text") or piece.get("refusal") or ""), piece, sources)
        return
    citations = [_source_of(citation) for citation in _tables(native.get("citations"))]
    numbers = dict.fromkeys(sources.add(source) for source in citations if source.url)
    end = len(part.text.rstrip())
    yield part.text[:end] + (f" {''.join(f'[{number}]' for number in numbers)}" if numbers else "") + part.text[end:]


def _with_numbers(text: str, piece: Mapping[str, object], sources: _Sources) -> str:
    """Replace links marked by OpenAI's annotations with source numbers. If an annotation's offsets do not match its
    link, such as when they count different units, only its source is added."""
    pieces, position = [], 0
    for annotation in _tables(piece.get("annotations")):
        source, start, end = _source_of(annotation), annotation.get("start_index"), annotation.get("end_index")
        if not source.url:
            continue
        number = sources.add(source)
        if isinstance(start, int) and isinstance(end, int) and position <= start and source.url in text[start:end]:
            pieces += [text[position:start], f"[{number}]"]
            position = end
    return "".join([*pieces, text[position:]])


def _found_sources(result: Mapping[str, object]) -> Iterator[FoundPage]:
    """Yield the pages that a search found or the model opened."""
    action = result.get("action")
    pages = [action, *_tables(action.get("sources"))] if isinstance(action, Mapping) else []
    for page in (*_tables(result.get("content")), *pages):
        source = _source_of(page)
        if source.url:
            yield source


def _source_of(page: Mapping[str, object]) -> FoundPage:
    title = _line(page.get("title"))
    return FoundPage(_line(page.get("url")), "" if title.isdigit() else title, _line(page.get("page_age")))


def _queries(item: ProviderItem) -> Iterator[str]:
    """Yield the queries of a search. An opened page has no query."""
    match item.native:
        case {"type": "server_tool_use", "name": "web_search", "input": {"query": str(query)}}:
            yield _line(query)
        case {"type": "web_search_call", "action": {"queries": [_, *_] as queries}}:
            yield from filter(None, map(_line, queries))
        case {"type": "web_search_call", "action": {"query": str(query)}}:
            yield _line(query)


def _problem_of(result: Mapping[str, object]) -> str:
    """Return why a search failed; empty if it succeeded."""
    content = result.get("content")
    entries = _tables(content if isinstance(content, list) else [content])
    for code in (entry.get("error_code") for entry in entries if _is_error(entry)):
        return ERROR_SENTENCES.get(str(code), f"the provider's search failed (`{_line(code) or 'unknown'}`): try again")
    return "the provider's search failed: try again" if result.get("status") == "failed" else ""


def _is_error(entry: Mapping[str, object]) -> bool:
    return "error_code" in entry or str(entry.get("type")).endswith("_error")


def _tables(value: object) -> list[Mapping[str, object]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _line(value: object) -> str:
    """Return a string on one line; empty if the value is not a string."""
    return " ".join(value.split()) if isinstance(value, str) else ""
