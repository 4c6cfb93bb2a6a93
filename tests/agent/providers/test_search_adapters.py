"""Web searches by Gemini, OpenRouter and xAI, over HTTP, with servers as strict as the documentation of July 2026.

ai.google.dev/gemini-api/docs/google-search, openrouter.ai/docs/guides/features/server-tools/web-search,
docs.x.ai/developers/tools/web-search and tools/citations. The replies have the shapes that these pages show.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.config.load import load_config
from ebbtide.agent.events.session import Event, ReplyFinished
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.factory import build_provider
from ebbtide.agent.providers.web_search import MAX_ANSWER_TOKENS, SEARCH_PROMPT, ProviderSearch
from ebbtide.tools.base import ToolError
from tests.kit.web_server import Answer, QuietHandler, web_server

GEMINI, GEMINI_2, OPENROUTER, GROK = (
    "gemini/gemini-3.5-flash",
    "gemini/gemini-2.5-flash",
    "openrouter/z-ai/glm-5.2",
    "xai/grok-4.20",
)
KEY = "key-0123456789"
REDIRECT = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/AB"
SYSTEM = {"role": "system", "content": SEARCH_PROMPT}


def user(query: str) -> Mapping[str, object]:
    return {"role": "user", "content": query}


class SearchServer:
    """A server that gives the next answer to a request of exactly this form, and 400 to any other."""

    def __init__(self, path: str, key_header: tuple[str, str], body: Mapping[str, object], *answers: Answer) -> None:
        self.path, self.key_header, self.body = path, key_header, body
        self.answers = list(answers)
        self.url = ""
        self.request_count = 0
        self.problems: list[object] = []

    def answer(self, handler: QuietHandler) -> Answer:
        body = json.loads(handler.body())
        name, value = self.key_header
        self.request_count += 1
        for problem in (
            handler.path if handler.path != self.path else "",
            name if handler.headers.get(name) != value else "",
            body if body != self.body else "",
            "Authorization" if name != "authorization" and "authorization" in handler.headers else "",
        ):
            if problem:
                self.problems.append(problem)
                return 400, json.dumps({"error": {"code": 400, "message": f"unexpected {problem}"}}).encode()
        return self.answers.pop(0)


@contextmanager
def running(server: SearchServer) -> Iterator[SearchServer]:
    with web_server(server.answer) as url:
        server.url = url
        yield server
    assert server.problems == []


@asynccontextmanager
async def searching(
    server: SearchServer, model: str, base_path: str, folder: Path
) -> AsyncIterator[tuple[ProviderSearch, list[Event]]]:
    name, events = model.partition("/")[0], list[Event]()
    with running(server):
        address = f'providers.{name}.base_url="{server.url}{base_path}"'
        config = load_config(folder, {"EBB_HOME": str(folder)}, {}, ('web.search="provider"', address))
        key = {"gemini": "GEMINI_API_KEY", "openrouter": "OPENROUTER_API_KEY", "xai": "XAI_API_KEY"}[name]
        provider = await build_provider(config, model, {key: KEY})
        yield ProviderSearch(provider, "session", Interrupt(), events.append), events
        await provider.close()


def gemini_server(query: str, *documents: Mapping[str, object], model: str = GEMINI, status: int = 200) -> SearchServer:
    body = {
        "system_instruction": {"parts": [{"text": SEARCH_PROMPT}]},
        "contents": [{"role": "user", "parts": [{"text": query}]}],
        "tools": [{"google_search": {}}],
        "generationConfig": {"maxOutputTokens": MAX_ANSWER_TOKENS},
    }
    path = f"/v1beta/models/{model.partition('/')[2]}:generateContent"
    answers = [(status, json.dumps(document).encode()) for document in documents]
    return SearchServer(path, ("x-goog-api-key", KEY), body, *answers)


def grounded_reply(text: str, *supports: Mapping[str, object], queries: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "Let me see.", "thought": True}, {"text": text}]},
                "finishReason": "STOP",
                "groundingMetadata": {
                    "webSearchQueries": list(queries),
                    "searchEntryPoint": {"renderedContent": "<style>"},
                    "groundingChunks": [
                        {"web": {"uri": f"{REDIRECT}1", "title": "python.org"}},
                        {"web": {"uri": f"{REDIRECT}2", "title": "peps.python.org"}},
                        {"retrievedContext": {"title": "a file"}},
                    ],
                    "groundingSupports": list(supports),
                },
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 100, "toolUsePromptTokenCount": 900, "candidatesTokenCount": 50,
            "thoughtsTokenCount": 30, "totalTokenCount": 1080,
        },
    }  # fmt: skip


def support(text: str, *indices: int, start: int = 0) -> dict[str, object]:
    segment = {"startIndex": start, "endIndex": start + len(text.encode()), "text": text}
    return {"segment": segment, "groundingChunkIndices": list(indices)}


async def found_by_gemini(folder: Path, *documents: Mapping[str, object], model: str = GEMINI) -> str:
    async with searching(gemini_server("q", *documents, model=model), model, "/v1beta/openai", folder) as (search, _):
        try:
            return await search.find("q")
        except ToolError as error:
            return f"error: {error}"


async def test_gemini_searches_with_its_own_api(tmp_path: Path) -> None:
    text = "Größer: 3.14 ist da. Es ist schneller.\nEnde."
    document = grounded_reply(
        text,
        support("Größer: 3.14 ist da.", 0, 1),
        support("Es ist schneller.", 1, 2, 9, start=23),
        support("not in the text", 0),
    )
    server = gemini_server("neu in 3.14", document)
    async with searching(server, GEMINI, "/v1beta/openai", tmp_path) as (search, events):
        assert await search.find("neu in 3.14") == (
            "(searched for: a; b)\n\n"
            "Größer: 3.14 ist da. [1][2] Es ist schneller. [2]\nEnde.\n\n"
            f"[1] python.org: {REDIRECT}1\n[2] peps.python.org: {REDIRECT}2"
        )
        prices = search.provider.facts.prices
    (finished,) = events
    assert isinstance(finished, ReplyFinished)
    assert (finished.purpose, finished.usage.prompt, finished.usage.output) == ("search", 1000, 80)
    assert prices is not None
    assert finished.cost == pytest.approx(prices.cost(finished.usage) + 2 * 0.014)


@pytest.mark.parametrize(("model", "dollars"), [(GEMINI, 3 * 0.014), (GEMINI_2, 0.035)])
async def test_google_charges_for_each_query_since_gemini_3(tmp_path: Path, model: str, dollars: float) -> None:
    server = gemini_server("q", grounded_reply("It is.", queries=("a", "b", "c")), model=model)
    async with searching(server, model, "/v1beta/openai/", tmp_path) as (search, events):
        await search.find("q")
        prices = search.provider.facts.prices
    (finished,) = events
    assert isinstance(finished, ReplyFinished)
    assert prices is not None
    assert finished.cost == pytest.approx(prices.cost(finished.usage) + dollars)


async def test_gemini_without_a_search_says_so(tmp_path: Path) -> None:
    document = {"candidates": [{"content": {"parts": [{"text": "I know."}]}, "finishReason": "STOP"}]}
    said = await found_by_gemini(tmp_path, document)
    assert said == f"(without a search: this is what `{GEMINI}` knows)\n\nI know."


@pytest.mark.parametrize(
    "document",
    [
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 5}},
        {"candidates": [{"finishReason": "SAFETY", "index": 0}]},
        {"candidates": [{"content": {}, "finishReason": "RECITATION"}]},
    ],
)
async def test_a_refusal_by_gemini_is_one_sentence(tmp_path: Path, document: Mapping[str, object]) -> None:
    said = await found_by_gemini(tmp_path, document)
    assert said == f"error: the search failed: `{GEMINI}` declined to answer. Word the query differently"


async def test_a_cut_answer_of_gemini_is_used(tmp_path: Path) -> None:
    document = grounded_reply("It is")
    document["candidates"][0]["finishReason"] = "MAX_TOKENS"
    assert "It is (the answer was cut here)" in await found_by_gemini(tmp_path, document)


@pytest.mark.parametrize("document", [{"candidates": []}, {"candidates": [{"groundingMetadata": None}]}])
async def test_an_empty_answer_of_gemini_is_paid_for_once(tmp_path: Path, document: Mapping[str, object]) -> None:
    said = await found_by_gemini(tmp_path, document, {"candidates": "a second request"})
    assert said.startswith("error: the search failed: ")


async def test_an_error_of_gemini_is_one_sentence(tmp_path: Path) -> None:
    error = {"error": {"code": 400, "message": "Search Grounding is not supported.", "status": "INVALID_ARGUMENT"}}
    async with searching(gemini_server("q", error, status=400), GEMINI, "/v1beta/openai", tmp_path) as (search, _):
        with pytest.raises(ToolError) as caught:
            await search.find("q")
    assert str(caught.value) == (
        f"the provider's search cannot be used: {GEMINI} rejected the request (400): Search Grounding is not "
        "supported. Tell the user that `web.search` can name a program"
    )


def stream(*frames: Mapping[str, object], is_ended: bool = True) -> Answer:
    end = "data: [DONE]\n\n" if is_ended else ""
    body = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames) + end
    return 200, f": OPENROUTER PROCESSING\n\n{body}".encode(), {"content-type": "text/event-stream"}


def openrouter_server(*answers: Answer) -> SearchServer:
    body = {
        "model": "z-ai/glm-5.2",
        "messages": [SYSTEM, user("q")],
        "max_tokens": 8192,
        "tools": [
            {"type": "openrouter:web_search", "parameters": {"max_results": 5, "max_total_results": 10}},
        ],
        "stream": True,
    }
    return SearchServer("/api/v1/chat/completions", ("authorization", f"Bearer {KEY}"), body, *answers)


async def test_openrouter_searches_with_its_server_tool(tmp_path: Path) -> None:
    text = "It is new. [python.org](https://python.org/3.14)"
    link = {"url": "https://python.org/3.14", "title": "3.14", "content": "…", "start_index": 11, "end_index": 48}
    usage = {
        "prompt_tokens": 900, "completion_tokens": 20, "cost": 0.0213, "server_tool_use": {"web_search_requests": 1},
    }  # fmt: skip
    answer = stream(
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text[:11]}}]},
        {"choices": [{"index": 0, "delta": {"content": text[11:]}}]},
        {"choices": [{"index": 0, "delta": {"annotations": [{"type": "url_citation", "url_citation": link}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    )
    async with searching(openrouter_server(answer), OPENROUTER, "/api/v1", tmp_path) as (search, events):
        assert await search.find("q") == "It is new. [1]\n\n[1] 3.14: https://python.org/3.14"
    (finished,) = events
    assert isinstance(finished, ReplyFinished)
    assert (finished.cost, finished.usage.output) == (0.0213, 20)


async def test_openrouter_without_a_search_says_so(tmp_path: Path) -> None:
    answer = stream({"choices": [{"index": 0, "delta": {"content": "I know."}, "finish_reason": "stop"}]})
    async with searching(openrouter_server(answer), OPENROUTER, "/api/v1", tmp_path) as (search, events):
        assert await search.find("q") == f"(without a search: this is what `{OPENROUTER}` knows)\n\nI know."
    assert [event.cost for event in events if isinstance(event, ReplyFinished)] == [None]


def xai_server(*answers: Answer) -> SearchServer:
    body = {
        "model": "grok-4.20",
        "input": [SYSTEM, user("q")],
        "max_output_tokens": MAX_ANSWER_TOKENS,
        "tools": [{"type": "web_search"}],
        "store": False,
        "stream": True,
    }
    return SearchServer("/v1/responses", ("authorization", f"Bearer {KEY}"), body, *answers)


def xai_answer(usage: Mapping[str, object]) -> Answer:
    """The streamed shape that public captures of xAI's API show: a link's title is its number."""
    text = "It is new [[1]](https://x.ai/news)."
    mark = {"type": "url_citation", "url": "https://x.ai/news", "title": "1", "start_index": 10, "end_index": 34}
    search = {
        "type": "web_search_call", "id": "ws_1", "status": "completed",
        "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://x.ai/news"}]},
    }  # fmt: skip
    opened = {"type": "web_search_call", "id": "ws_2", "status": "completed", "action": {"type": "open_page"}}
    message = {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [mark]}],
    }  # fmt: skip
    response = {"object": "response", "status": "completed", "output": [search, opened, message], "usage": usage}
    return stream(
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": search},
        {"type": "response.output_item.done", "output_index": 1, "item": opened},
        {"type": "response.output_text.delta", "output_index": 2, "item_id": "msg_1", "delta": text},
        {"type": "response.output_item.done", "output_index": 2, "item": message},
        {"type": "response.completed", "response": response},
        is_ended=False,
    )


TOKENS = {"input_tokens": 2000, "output_tokens": 100}


@pytest.mark.parametrize(
    ("usage", "extra_dollars"),
    [
        (TOKENS | {"cost_in_usd_ticks": 37_756_000}, None),
        (TOKENS | {"server_side_tool_usage_details": {"web_search_calls": 2}}, 0.01),
        (TOKENS | {"cost_in_usd_ticks": "37756000"}, 0.005),
    ],
)
async def test_xai_searches_with_its_responses_api(
    tmp_path: Path, usage: Mapping[str, object], extra_dollars: float | None
) -> None:
    async with searching(xai_server(xai_answer(usage)), GROK, "/v1", tmp_path) as (search, events):
        assert await search.find("q") == "It is new [1].\n\n[1] https://x.ai/news"
        prices = search.provider.facts.prices
    (finished,) = events
    assert isinstance(finished, ReplyFinished)
    assert prices is not None
    cost = 0.0037756 if extra_dollars is None else prices.cost(finished.usage) + extra_dollars
    assert finished.cost == pytest.approx(cost)


async def test_an_xai_model_that_cannot_search_is_asked_once(tmp_path: Path) -> None:
    refused = b'{"code":"Client specified an invalid argument","error":"server-side tools are not supported"}'
    server = xai_server((400, refused))
    async with searching(server, GROK, "/v1", tmp_path) as (search, _):
        with pytest.raises(ToolError, match=r"cannot be used: .*server-side tools are not supported"):
            await search.find("q")
    assert server.request_count == 1


async def test_other_requests_use_the_chat_api_and_secrets_stay_here(tmp_path: Path) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    hello = stream({"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]})

    def answer(handler: QuietHandler) -> Answer:
        seen.append((handler.path, json.loads(handler.body())))
        return (
            hello if handler.path.endswith("/chat/completions") else (200, json.dumps(grounded_reply("Yes.")).encode())
        )

    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    with web_server(answer) as url:
        address = f'providers.gemini.base_url="{url}/v1beta/openai"'
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, ('web.search="provider"', address))
        provider = await build_provider(config, GEMINI, {"GEMINI_API_KEY": KEY, "GITHUB_TOKEN": secret})
        search = ProviderSearch(provider, "session", Interrupt(), lambda event: None)
        assert (await search.find(f"what is {secret}?")).startswith("(searched for: a; b)")
        request = Request("", (User((Text("Hi."),)),), (), 100, "session")
        assert [chunk async for chunk in provider.stream(request)]
        await provider.close()
    assert [path.rpartition("/")[2] for path, _ in seen] == ["gemini-3.5-flash:generateContent", "completions"]
    assert secret not in json.dumps(seen)
    assert "google_search" not in json.dumps(seen[1])
