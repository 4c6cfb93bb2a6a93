"""Searches of the web by the model's own provider, over HTTP, with streams made from the providers' own types."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anthropic.types import StopReason, TextBlock
from openai.types.responses import ResponseOutputItem
from openai.types.responses.response_function_web_search import ActionFind, ActionOpenPage

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.config.load import load_config
from ebbtide.agent.errors import EmptyAnswer
from ebbtide.agent.events.session import Event, ReplyFinished, RetryScheduled
from ebbtide.agent.messages import AssistantPart, ProviderItem, Text, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.factory import build_provider
from ebbtide.agent.providers.search_report import FoundPage, SearchReport, read_search_report
from ebbtide.agent.providers.setup import searches_web
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.providers.web_search import MAX_CONTINUATIONS, ProviderSearch
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.base import ToolError
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.polling import until
from tests.kit.search_frames import (
    PAGES,
    answer,
    anthropic_stream,
    cited,
    failed,
    found,
    openai_stream,
    opens,
    searched,
    searches,
)

CLAUDE, GPT = "anthropic/claude-haiku-5-5", "openai/gpt-6-sol"
NOTES, BLOG = PAGES
LINK = f"([{BLOG[1]}]({BLOG[0]}))"


@asynccontextmanager
async def search_by(
    model: str, folder: Path, *answers: str | Turn
) -> AsyncIterator[tuple[FakeProvider, ProviderSearch, list[Event]]]:
    events: list[Event] = []
    turns = [one if isinstance(one, Turn) else Turn(raw=one) for one in answers]
    with FakeProvider(turns) as server:
        config = load_config(folder, {"EBB_HOME": str(folder)}, {}, ('web.search="provider"',))
        provider = await build_provider(config, model, server.environment)
        yield server, ProviderSearch(provider, "session", Interrupt(), events.append), events
        await provider.close()


async def found_by(model: str, folder: Path, *answers: str | Turn, query: str = "new in 3.14") -> str:
    async with search_by(model, folder, *answers) as (_, search, _):
        try:
            return await search.find(query)
        except ToolError as error:
            return f"error: {error}"


async def test_anthropic_searches_in_a_request_of_its_own(tmp_path: Path) -> None:
    stream = anthropic_stream(
        [
            TextBlock(text="I'll look that up.", type="text"),
            searched("s1", "new in 3.14"),
            found("s1"),
            cited("It is faster", NOTES, BLOG),
            cited(". That is all.\n"),
        ]
    )
    async with search_by(CLAUDE, tmp_path, stream) as (server, search, events):
        text = await search.find("new in 3.14")
    assert text == (
        "It is faster [1][2]. That is all.\n\n"
        "[1] Release notes: https://docs.example.org/a (2 days ago)\n"
        "[2] A blog: https://blog.example.org/b"
    )
    body = server.requests[0].body
    assert body["tools"] == [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert json.dumps(body["messages"][0]["content"]).count("new in 3.14") == 1
    prices = search.provider.facts.prices
    assert prices is not None
    (reply,) = events
    assert isinstance(reply, ReplyFinished)
    assert reply.purpose == "search"
    assert reply.cost == pytest.approx((3000 * prices.input + 100 * prices.output) / 1e6 + 0.01)


async def test_openai_searches_in_a_request_of_its_own(tmp_path: Path) -> None:
    items: list[ResponseOutputItem] = [
        searches("ws_1", "new in 3.14"),
        opens("ws_2", ActionOpenPage(type="open_page", url="https://docs.example.org/opened")),
        opens("ws_3", ActionFind(type="find_in_page", url=NOTES[0], pattern="3.14")),
        answer(f"It is faster {LINK}, and smaller {LINK}.", BLOG),
    ]
    async with search_by(GPT, tmp_path, openai_stream(items)) as (server, search, events):
        text = await search.find("new in 3.14")
    assert text == (
        f"It is faster [1], and smaller {LINK}.\n\n"
        "[1] A blog: https://blog.example.org/b\n"
        "[2] https://docs.example.org/a\n"
        "[3] https://docs.example.org/opened"
    )
    body = server.requests[0].body
    assert body["tools"] == [{"type": "web_search"}]
    assert body["max_tool_calls"] == 2
    assert body["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert body["reasoning"]["effort"] == "low"
    prices = search.provider.facts.prices
    assert prices is not None
    (reply,) = events
    assert isinstance(reply, ReplyFinished)
    assert reply.cost == pytest.approx((3000 * prices.input + 100 * prices.output) / 1e6 + 0.01)


@pytest.mark.parametrize(("count", "dollars"), [(2, 0.02), (None, 0.01), (0, 0.0)])
async def test_each_search_that_is_charged_for_is_counted(tmp_path: Path, count: int | None, dollars: float) -> None:
    claude = anthropic_stream(
        [searched("s1", "a"), found("s1"), searched("s2", "b"), failed("s2", "unavailable"), cited("Yes.")],
        searches=count, tokens=(0, 0),
    )  # fmt: skip
    opened = opens("ws_2", ActionOpenPage(type="open_page", url=NOTES[0]))
    gpt = openai_stream([searches("ws_1", "a"), opened, answer("Yes.")], searches=count, tokens=(0, 0))
    for model, stream in ((CLAUDE, claude), (GPT, gpt)):
        async with search_by(model, tmp_path, stream) as (_, search, events):
            await search.find("a")
        assert [event.cost for event in events if isinstance(event, ReplyFinished)] == [pytest.approx(dollars)]


async def test_a_paused_search_goes_on_and_its_blocks_go_back_unchanged(tmp_path: Path) -> None:
    """anthropic-sdk-python issues 961 and 1339: the search that is still open has to be in the last message."""
    paused = anthropic_stream(
        [searched("s1", "a"), found("s1"), cited("First.", NOTES), searched("s2", "b")], "pause_turn"
    )
    ended = anthropic_stream([found("s2", [BLOG]), cited("Second.", BLOG)])
    async with search_by(CLAUDE, tmp_path, paused, ended) as (server, search, events):
        text = await search.find("a")
    assert text == (
        "(searched for: a; b)\n\nFirst. [1]\n\nSecond. [2]\n\n"
        "[1] Release notes: https://docs.example.org/a (2 days ago)\n[2] A blog: https://blog.example.org/b"
    )
    sent = server.requests[1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant"]
    blocks = sent[1]["content"]
    assert [block["type"] for block in blocks] == [
        "server_tool_use",
        "web_search_tool_result",
        "text",
        "server_tool_use",
    ]
    assert blocks[1]["content"][0]["encrypted_content"] == f"sealed {NOTES[0]}"
    assert blocks[2]["citations"][0]["encrypted_index"] == f"index {NOTES[0]}"
    assert [event.purpose for event in events if isinstance(event, ReplyFinished)] == ["search", "search"]


async def test_a_search_that_pauses_again_and_again_ends_with_what_it_found(tmp_path: Path) -> None:
    paused = [
        anthropic_stream([searched(f"s{n}", "a"), found(f"s{n}"), cited(f"Part {n}.")], "pause_turn")
        for n in range(MAX_CONTINUATIONS + 2)
    ]
    async with search_by(CLAUDE, tmp_path, *paused) as (server, search, _):
        text = await search.find("a")
    assert len(server.requests) == MAX_CONTINUATIONS + 1
    assert text.startswith("Part 0.\n\nPart 1.\n\nPart 2.\n\nPart 3. (the search stopped here)\n\n[1] ")


async def test_what_was_found_before_a_pause_that_cannot_be_continued_is_kept(tmp_path: Path) -> None:
    """As in anthropic-sdk-python issue 961, where the API rejected the search that it had left open."""
    paused = anthropic_stream(
        [searched("s1", "a"), found("s1", [BLOG]), cited("First.", BLOG), searched("s2", "a")], "pause_turn"
    )
    rejected = Turn(status=400, error=("invalid_request_error", "`web_search` tool use was found without a result"))
    assert await found_by(CLAUDE, tmp_path, paused, rejected, query="a") == (
        "First. [1]\n\n(the search stopped here)\n\n[1] A blog: https://blog.example.org/b"
    )


async def test_an_answer_that_was_cut_says_so(tmp_path: Path) -> None:
    stream = anthropic_stream([searched("s1", "a"), found("s1", [BLOG]), cited("It is fas")], "max_tokens")
    assert (await found_by(CLAUDE, tmp_path, stream, query="a")).startswith(
        "It is fas (the answer was cut here)\n\n[1]"
    )


@pytest.mark.parametrize("stop", ["max_tokens", "end_turn"])
async def test_a_search_without_an_answer_is_paid_for_once(tmp_path: Path, stop: StopReason) -> None:
    """A model may use all its tokens for thinking, during which the provider has searched."""
    async with search_by(CLAUDE, tmp_path, anthropic_stream([], stop), anthropic_stream([])) as (server, search, _):
        with pytest.raises(ToolError) as caught:
            await search.find("a")
    happened = "used all 16384 output tokens before answering" if stop == "max_tokens" else "sent two empty answers"
    assert str(caught.value) == f"the search failed: `{CLAUDE}` {happened}. Word the query differently"
    assert [request.body["max_tokens"] for request in server.requests] == [16_384]


ERRORS: Sequence[tuple[str, str]] = [
    ("max_uses_exceeded", "the query needs more searches than one call may use: ask for less at once"),
    ("too_many_requests", "the provider has too many searches to do: wait a minute, then try again"),
    ("unavailable", "the provider's search is not available at the moment: try again later"),
    ("query_too_long", "the query is too long: shorten it"),
    ("request_too_large", "the results are too long for the model: ask for something more specific"),
    ("invalid_tool_input", "the provider refused the query: word it differently"),
]


@pytest.mark.parametrize(("code", "sentence"), ERRORS)
@pytest.mark.parametrize("text", ["", "I cannot search, but I remember that it is faster."])
async def test_a_failed_search_is_one_sentence(tmp_path: Path, code: str, sentence: str, text: str) -> None:
    """With an answer from memory, too, which must not pass for one from the web (unsloth pull request 10757)."""
    stream = anthropic_stream(
        [searched("s1", "a"), failed("s1", "unavailable"), *([cited(text)] if text else [])], searches=0
    ).replace('"error_code": "unavailable"', f'"error_code": "{code}"')
    assert await found_by(CLAUDE, tmp_path, stream) == f"error: {sentence}"


async def test_an_unknown_code_is_named(tmp_path: Path) -> None:
    stream = anthropic_stream([searched("s1", "a"), failed("s1", "unavailable")], searches=0)
    said = await found_by(CLAUDE, tmp_path, stream.replace('"unavailable"', '"on_strike"'))
    assert said == "error: the provider's search failed (`on_strike`): try again"


async def test_a_failure_beside_a_search_that_succeeded_is_noted(tmp_path: Path) -> None:
    stream = anthropic_stream(
        [
            searched("s1", "a"),
            found("s1", [BLOG]),
            searched("s2", "a"),
            failed("s2", "max_uses_exceeded"),
            cited("Yes.", BLOG),
        ]
    )
    assert await found_by(CLAUDE, tmp_path, stream, query="a") == (
        "(the query needs more searches than one call may use: ask for less at once)\n\n"
        "Yes. [1]\n\n[1] A blog: https://blog.example.org/b"
    )
    gpt = openai_stream([searches("ws_1", "a", None, status="failed"), answer("I think so.")])
    assert await found_by(GPT, tmp_path, gpt) == "error: the provider's search failed: try again"


async def test_nothing_found_is_no_error(tmp_path: Path) -> None:
    assert await found_by(CLAUDE, tmp_path, anthropic_stream([searched("s1", "a"), found("s1", [])])) == ""
    assert await found_by(GPT, tmp_path, openai_stream([searches("ws_1", "a", [])])) == ""


async def test_results_without_an_answer_are_listed(tmp_path: Path) -> None:
    assert await found_by(
        CLAUDE, tmp_path, anthropic_stream([searched("s1", "a"), found("s1", [BLOG])]), query="a"
    ) == ("[1] A blog: https://blog.example.org/b")


async def test_a_reply_of_nothing_but_a_search_is_an_answer_only_where_a_search_was_asked_for(tmp_path: Path) -> None:
    silent = openai_stream([searches("ws_1", "a")])
    async with search_by(GPT, tmp_path, silent, silent, silent) as (server, search, events):
        assert (await search.find("a")).startswith("[1] ")
        request = Request("", (User((Text("Hello."),)),), (), 100, "session")
        with pytest.raises(EmptyAnswer):
            await stream_reply(search.provider, request, search.interrupt, events.append)
        assert len(server.requests) == 3


async def test_an_answer_without_a_search_says_so(tmp_path: Path) -> None:
    note = "(without a search: this is what `{}` knows)\n\nIt is faster."
    assert await found_by(CLAUDE, tmp_path, anthropic_stream([cited("It is faster.")], searches=0)) == note.format(
        CLAUDE
    )
    assert await found_by(GPT, tmp_path, openai_stream([answer("It is faster.")], searches=0)) == note.format(GPT)


@pytest.mark.parametrize("text", ["", "I must not look for that."])
async def test_a_refusal_is_one_sentence(tmp_path: Path, text: str) -> None:
    stop: StopReason = "refusal"
    said = await found_by(CLAUDE, tmp_path, anthropic_stream([cited(text)] if text else [], stop, searches=0))
    assert said == f"error: the search failed: `{CLAUDE}` declined to answer. Word the query differently"


@pytest.mark.parametrize(
    ("status", "kind", "message", "said"),
    [
        (
            400,
            "invalid_request_error",
            "Web search is not enabled for this organization.",
            "the provider's search cannot be used: anthropic/claude-haiku-5-5 rejected the request (400): "
            "Web search is not enabled for this organization. Tell the user that `web.search` can name a program",
        ),
        (
            403,
            "permission_error",
            "Your organization has disabled web search.",
            "the provider's search cannot be used: an organisation policy forbids anthropic/claude-haiku-5-5 (403): "
            "Your organization has disabled web search. Tell the user that `web.search` can name a program",
        ),
        (
            402,
            "billing_error",
            "Your credit balance is too low.",
            "the search failed: the account for anthropic/claude-haiku-5-5 has no credit left: "
            "Your credit balance is too low. Try again later, or tell the user",
        ),
    ],
)
async def test_a_rejected_request_is_one_sentence(
    tmp_path: Path, status: int, kind: str, message: str, said: str
) -> None:
    refused = Turn(status=status, error=(kind, message))
    assert await found_by(CLAUDE, tmp_path, refused) == f"error: {said}"


@pytest.mark.parametrize(
    "message", ["The use of the web search tool is not supported.", "Unsupported tool type: web_search"]
)
async def test_a_relay_that_cannot_search_is_asked_once_and_told_nothing_else_from_then_on(
    tmp_path: Path, message: str
) -> None:
    """caozhiyuan/copilot-api issue 82. The second text is what makes other requests do without plain-text tools."""
    patch = ToolSpec("apply_patch", "Changes files.", {"type": "object", "properties": {"patch": {"type": "string"}}})
    refused = Turn(status=400, error=("unsupported_value", message))
    async with search_by(GPT, tmp_path, refused, Turn(text="Hello.")) as (server, search, _):
        with pytest.raises(
            ToolError, match=re.escape(f"(400): {message.rstrip('.')}. Tell the user that `web.search`")
        ):
            await search.find("a")
        request = Request("", (User((Text("Hello."),)),), (patch,), 100, "session")
        assert [chunk async for chunk in search.provider.stream(request)]
    assert [tool["type"] for tool in server.requests[1].body["tools"]] == ["custom"]


async def test_an_overloaded_server_is_asked_again(tmp_path: Path) -> None:
    busy = Turn(status=529, error=("overloaded_error", "Overloaded"), headers={"retry-after": "0"})
    stream = anthropic_stream([searched("s1", "a"), found("s1", [BLOG]), cited("Yes.", BLOG)])
    async with search_by(CLAUDE, tmp_path, busy, stream) as (_, search, events):
        assert (await search.find("a")).startswith("Yes. [1]")
    assert [type(event) for event in events] == [RetryScheduled, ReplyFinished]


async def test_an_interrupted_search_is_left(tmp_path: Path) -> None:
    async with search_by(CLAUDE, tmp_path, Turn(text="I am looking", fault="hang")) as (server, search, events):
        searching = asyncio.create_task(search.find("a"))
        await until(lambda: bool(server.requests))
        search.interrupt.request()
        with pytest.raises(ToolError, match=r"^the search was interrupted$"):
            await searching
        assert await asyncio.to_thread(server.wait_gone)
    assert events == []


async def test_a_model_whose_provider_does_not_search_says_so(tmp_path: Path) -> None:
    assert await found_by("openai-chat/m", tmp_path) == (
        "error: the provider of `openai-chat/m` does not search the web: the user can set a program in `web.search`"
    )


def test_only_the_companies_own_addresses_search_by_default(tmp_path: Path) -> None:
    def searching(setting: str, provider: str, model: str = "m", **environment: str) -> bool:
        settings = (f"web.search={setting}",) if setting else ()
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
        return searches_web(provider, model, config, environment)

    other = {"ANTHROPIC_BASE_URL": "https://relay.example.org"}
    assert searching("", "anthropic")
    assert searching("", "openai")
    assert searching('"auto"', "anthropic", ANTHROPIC_BASE_URL="https://api.anthropic.com/")
    assert not searching("", "anthropic", **other)
    assert searching('"provider"', "anthropic", **other)
    assert not any(searching(setting, "anthropic") for setting in ('"off"', "[]", '["ddgr"]', '"ddgr"'))
    assert not any(searching('"provider"', name) for name in ("openai-chat", "groq", "bedrock", "azure", "ollama"))
    models = ("gemini/gemini-3.5-flash", "gemini/models/gemini-2.5-pro", "xai/grok-4.20", "openrouter/z-ai/glm-5.2")
    assert all(searching("", *model.split("/", 1)) for model in models)
    others = ("gemini/gemma-4-31b-it", "gemini/gemini-2.5-computer-use-preview-10-2025", "xai/grok-code-fast-1")
    assert not any(searching('"provider"', *model.split("/", 1)) for model in others)


CLAUDE_RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1"}
CALL = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
PAGE = "https://docs.example.org/a"


def cites(*citations: object) -> Text:
    return Text("Yes.", {"type": "text", "text": "Yes.", "citations": [*citations]})


def message(text: str, *annotations: object) -> Text:
    content = [{"type": "output_text", "text": text, "annotations": [*annotations]}]
    return Text(text, {"type": "message", "content": content})


@pytest.mark.parametrize(
    ("parts", "report"),
    [
        pytest.param(
            [
                ProviderItem({**CLAUDE_RESULT, "content": [{"type": "web_search_result", "url": PAGE, "title": None}]}),
                cites({"url": PAGE, "title": None}, {"url": None}, None),
            ],
            SearchReport("Yes. [1]", (FoundPage(PAGE),), has_searched=True),
            id="citations with null fields",
        ),
        pytest.param(
            [ProviderItem(CLAUDE_RESULT), Text("Yes.", {"type": "text", "citations": None})],
            SearchReport("Yes.", has_searched=True),
            id="null results and null citations",
        ),
        pytest.param(
            [
                ProviderItem({**CLAUDE_RESULT, "content": [{"url": PAGE}]}),
                ProviderItem({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}}),
                Text("Yes."),
            ],
            SearchReport("Yes.", (FoundPage(PAGE),), ("a",), has_searched=True),
            id="results that arrive before their search",
        ),
        pytest.param(
            [Text("Yes."), ProviderItem({**CLAUDE_RESULT, "content": [{"url": PAGE}]})],
            SearchReport("Yes.", (FoundPage(PAGE),), has_searched=True),
            id="an answer that arrives before its results",
        ),
        pytest.param(
            [ProviderItem({**CLAUDE_RESULT, "content": [{"error_code": None}]})],
            SearchReport("", problems=("the provider's search failed (`unknown`): try again",)),
            id="an error in a list, without its code",
        ),
        pytest.param(
            [ProviderItem({**CLAUDE_RESULT, "content": {"type": "web_search_tool_result_error"}}), Text("No.")],
            SearchReport("No.", problems=("the provider's search failed (`unknown`): try again",)),
            id="an error that only its type names",
        ),
        pytest.param(
            [ProviderItem({**CALL, "action": {"type": "open_page", "url": None}}), message("Yes.")],
            SearchReport("Yes.", has_searched=True),
            id="open_page without its address (vercel/ai pull request 9310)",
        ),
        pytest.param(
            [ProviderItem({**CALL, "action": {"type": "other"}}), message("Yes.")],
            SearchReport("Yes.", has_searched=True),
            id="an action of an unknown type (openai/codex issue 7073)",
        ),
        pytest.param(
            [ProviderItem({**CALL, "action": {"type": "find_in_page", "pattern": "a"}}), message("Yes.")],
            SearchReport("Yes.", has_searched=True),
            id="find_in_page without its address (openai-openapi issue 571)",
        ),
        pytest.param(
            [ProviderItem(CALL), message(f"Yes {PAGE}.", {"url": PAGE, "start_index": 4, "end_index": 30})],
            SearchReport("Yes [1].", (FoundPage(PAGE),), has_searched=True),
            id="no action, and url_citation without a title (vercel/ai issue 10199)",
        ),
        pytest.param(
            [
                ProviderItem({**CALL, "action": {"type": "search", "query": "a", "queries": [None], "sources": None}}),
                message("Yes.", {"url": PAGE, "title": "A\n page", "start_index": 900, "end_index": None}),
            ],
            SearchReport("Yes.", (FoundPage(PAGE, "A page"),), has_searched=True),
            id="no sources, and an annotation outside the text",
        ),
        pytest.param(
            [ProviderItem(CALL), Text("No.", {"type": "message", "content": [{"refusal": "No."}, None]})],
            SearchReport("No.", has_searched=True),
            id="a refusal in words",
        ),
    ],
)  # fmt: skip
def test_shapes_that_public_reports_describe(parts: list[Text | ProviderItem], report: SearchReport) -> None:
    assert read_search_report(parts) == report


def test_at_most_twenty_sources_are_listed_but_all_that_are_cited() -> None:
    def listed(cited_count: int) -> int:
        pages = [{"url": f"https://example.org/{number}"} for number in range(30)]
        parts: list[AssistantPart] = [ProviderItem({**CLAUDE_RESULT, "content": pages}), cites(*pages[:cited_count])]
        return len(read_search_report(parts).sources)

    assert [listed(0), listed(25)] == [20, 25]
