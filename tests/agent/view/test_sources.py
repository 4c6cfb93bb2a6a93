"""The sources of an answer, in the form in which each provider names them."""

import pytest

from ebbtide.agent.messages import Assistant, Native, ProviderItem, Source, Text
from ebbtide.agent.view.sources import cited_sources, sources_text

RUBY = "https://www.ruby-lang.org/en/downloads/"


@pytest.mark.parametrize(
    ("native", "sources"),
    [
        # Perplexity: bare addresses, and the same pages with titles
        (
            {
                "citations": ["https://a.example/1", RUBY],
                "search_results": [{"title": "Download Ruby", "url": RUBY, "date": None}],
            },
            (Source("https://a.example/1"), Source(RUBY, "Download Ruby")),
        ),
        # A list that repeats an address: `[3]` in the text is its third entry (SaveMyPhind-conversation-exporter 251)
        (
            {"citations": ["https://a.example/1", "https://a.example/1", RUBY], "search_results": None},
            (Source("https://a.example/1"), Source("https://a.example/1"), Source(RUBY)),
        ),
        # Entries without an address keep the numbers of the others
        (
            {"citations": ["doc-1", "https://a.example/1", None, RUBY, "javascript:alert(1)"]},
            (Source(""), Source("https://a.example/1"), Source(""), Source(RUBY)),
        ),
        # Perplexity without `citations`, which `search_results` replaces
        (
            {"search_results": [{"title": "Notes", "url": None}, {"title": "Ruby", "url": RUBY}, {"url": RUBY}]},
            (Source(""), Source(RUBY, "Ruby"), Source(RUBY, "Ruby")),
        ),
        ({"citations": [None], "search_results": [{"url": RUBY}]}, (Source(RUBY),)),
        # OpenAI's and OpenRouter's Chat Completions
        (
            {
                "annotations": [
                    {"type": "url_citation", "url_citation": {"url": RUBY, "title": "Download\nRuby", "end_index": 9}},
                    {"type": "url_citation", "url_citation": {"url": RUBY, "title": None}},
                ]
            },
            (Source(RUBY, "Download Ruby"),),
        ),
        # Anthropic's Messages
        (
            {
                "type": "text",
                "text": "Ruby 4",
                "citations": [
                    {"type": "web_search_result_location", "url": RUBY, "title": "Download Ruby", "cited_text": "4"},
                    {"type": "char_location", "document_index": 0, "document_title": "notes"},
                ],
            },
            (Source(RUBY, "Download Ruby"),),
        ),
        # OpenAI's Responses; xAI sends no titles
        (
            {
                "type": "message",
                "content": [
                    {"type": "output_text", "text": "x", "annotations": [{"type": "url_citation", "url": RUBY}]}
                ],
            },
            (Source(RUBY),),
        ),
        ({"citations": None, "annotations": [None, {"type": "file_citation", "file_id": "f"}]}, ()),
        ({"citations": ["doc-1", "javascript:alert(1)", "https://a b", 7]}, ()),
    ],
)
def test_the_cited_pages_are_named(native: Native, sources: tuple[Source, ...]) -> None:
    assert cited_sources(Assistant((Text("[1]", native),), "m")) == sources


def test_pages_that_were_only_found_are_not_sources() -> None:
    item = ProviderItem({"type": "web_search_tool_result", "content": [{"type": "web_search_result", "url": RUBY}]})
    assert cited_sources(Assistant((item, Text("plain")), "m")) == ()


def test_only_the_first_sources_are_listed() -> None:
    pages = tuple(Source(f"https://a.example/{number}" if number != 2 else "") for number in range(1, 201))
    _, *lines = sources_text(pages).splitlines()
    assert (lines[:2], lines[-2:]) == (
        ["[1] https://a.example/1", "[3] https://a.example/3"],
        ["[21] https://a.example/21", "and 179 more"],
    )


def test_sources_are_a_numbered_list() -> None:
    assert sources_text((Source("https://a.example/1"), Source(RUBY, "Download Ruby"))) == (
        f"Sources:\n[1] https://a.example/1\n[2] Download Ruby: {RUBY}"
    )
