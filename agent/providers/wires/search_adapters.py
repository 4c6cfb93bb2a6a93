"""Adapters for web searches by providers whose chat API has no search, or one of its own form.

Their replies are converted to the form of OpenAI's Responses API or Anthropic's Messages API, which `search_report`
reads. Each builds the smallest body that the provider's documentation shows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.messages import AssistantPart, ProviderItem, StopReason, Text, Usage, User
from ebbtide.agent.providers.base import Chunk, Endpoint, ModelFacts, Reply, Request, TextChunk
from ebbtide.agent.providers.wires import openai_chat, openai_responses
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.chat_decoder import ChatDecoder
from ebbtide.agent.providers.wires.decoder import ApiName, build_reply, parse_token_count
from ebbtide.agent.providers.wires.encoding import RequestEncodingCache
from ebbtide.agent.providers.wires.http import JsonObject
from ebbtide.agent.providers.wires.openai_responses import ResponsesDecoder
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.view.long_texts import sendable_text

RESULTS_PER_SEARCH = 5
"""Number of pages that OpenRouter fetches for each search, as by default. Each costs money."""
TICKS_PER_DOLLAR = 1e10
"""xAI's unit of cost."""
MAX_PLAUSIBLE_AMOUNT = 1e15
GEMINI_STOP_REASONS: Mapping[str, StopReason] = {
    "STOP": "end",
    "FINISH_REASON_UNSPECIFIED": "end",
    "OTHER": "end",
    "LANGUAGE": "end",
    "MAX_TOKENS": "max_tokens",
}
"""Stop reasons by finish reason. The other finish reasons mean that Gemini refuses to answer."""


def search_adapter(provider: str, model: str) -> Adapter | None:
    """Return the adapter for searches by a provider's model; None if its usual adapter sends them."""
    match provider:
        case "gemini":
            return replace(
                openai_chat.ADAPTER,
                path=f"/models/{quote(model.removeprefix('models/'), safe='')}:generateContent",
                build_body=_build_gemini_body,
                create_decoder=GeminiSearchDecoder,
                get_server_url=lambda endpoint: endpoint.base_url.rstrip("/").removesuffix("/openai"),
                build_headers=_gemini_headers,
            )
        case "openrouter":
            return replace(
                openai_chat.ADAPTER, build_body=_build_openrouter_body, create_decoder=OpenRouterSearchDecoder
            )
        case "xai":
            return replace(openai_responses.ADAPTER, build_body=_build_xai_body, create_decoder=XaiSearchDecoder)
        case _:
            return None


def _query(request: Request) -> str:
    texts = (
        part.text
        for message in request.messages
        if isinstance(message, User)
        for part in message.parts
        if isinstance(part, Text)
    )
    return sendable_text("\n\n".join(texts))


def _gemini_headers(endpoint: Endpoint) -> Mapping[str, str]:
    key_header = {"x-goog-api-key": endpoint.key} if endpoint.key else {}
    return {"accept": "application/json", **key_header}


def _build_gemini_body(
    request: Request, facts: ModelFacts, window: Window, quirks: frozenset[str], cache: RequestEncodingCache[Any]
) -> JsonObject:
    return {
        "system_instruction": {"parts": [{"text": sendable_text(request.system)}]},
        "contents": [{"role": "user", "parts": [{"text": _query(request)}]}],
        "tools": [{"google_search": {}}],
        "generationConfig": {"maxOutputTokens": request.max_output_tokens},
    }


def _build_openrouter_body(
    request: Request, facts: ModelFacts, window: Window, quirks: frozenset[str], cache: RequestEncodingCache[Any]
) -> JsonObject:
    limits = {
        "max_results": RESULTS_PER_SEARCH,
        "max_total_results": RESULTS_PER_SEARCH * request.max_web_searches,
    }
    return {
        "model": facts.name,
        "messages": [
            {"role": "system", "content": sendable_text(request.system)},
            {"role": "user", "content": _query(request)},
        ],
        "max_tokens": request.max_output_tokens,
        "tools": [{"type": "openrouter:web_search", "parameters": limits}],
        "stream": True,
    }


def _build_xai_body(
    request: Request, facts: ModelFacts, window: Window, quirks: frozenset[str], cache: RequestEncodingCache[Any]
) -> JsonObject:
    """Return the body of a request to xAI's Responses API, which does not accept `instructions`."""
    return {
        "model": facts.name,
        "input": [
            {"role": "system", "content": sendable_text(request.system)},
            {"role": "user", "content": _query(request)},
        ],
        "max_output_tokens": request.max_output_tokens,
        "tools": [openai_responses.WEB_SEARCH],
        "store": False,
        "stream": True,
    }


class XaiSearchDecoder(ResponsesDecoder):
    """Decodes xAI's Responses events, whose usage includes the cost and the number of successful searches."""

    def reply(self) -> Reply:
        reply = super().reply()
        usage = _table(self._response.get("usage"))
        ticks, counts = usage.get("cost_in_usd_ticks"), _table(usage.get("server_side_tool_usage_details"))
        if "web_search_calls" in counts:
            reply = replace(reply, web_search_count=parse_token_count(counts["web_search_calls"]))
        return replace(reply, billed_dollars=_dollars(ticks, TICKS_PER_DOLLAR))


class OpenRouterSearchDecoder(ChatDecoder):
    """Decodes OpenRouter's chat events, whose usage includes the cost and the number of searches."""

    def reply(self) -> Reply:
        reply = super().reply()
        search_count = parse_token_count(_table(self._usage.get("server_tool_use")).get("web_search_requests"))
        parts: list[AssistantPart] = []
        has_searched = search_count > 0
        for part in reply.message.parts:
            annotations = _annotations(part)
            has_searched = has_searched or bool(annotations)
            parts.append(_with_annotations(part, annotations) if isinstance(part, Text) and annotations else part)
        if has_searched:
            parts.insert(0, ProviderItem({"type": "web_search_call", "status": "completed"}))
        return replace(
            reply,
            message=replace(reply.message, parts=tuple(parts)),
            web_search_count=search_count,
            billed_dollars=_dollars(self._usage.get("cost"), 1.0),
        )


def _annotations(part: AssistantPart) -> list[JsonObject]:
    annotations = (part.native or {}).get("annotations") if isinstance(part, Text) else None
    entries = annotations if isinstance(annotations, list) else []
    return [entry["url_citation"] for entry in map(_table, entries) if isinstance(entry.get("url_citation"), dict)]


def _with_annotations(part: Text, annotations: list[JsonObject]) -> Text:
    """Return the text in the form of the Responses API."""
    content = {"type": "output_text", "text": part.text, "annotations": annotations}
    return Text(part.text, {"type": "message", "content": [content]})


@dataclass(slots=True)
class GeminiSearchDecoder:
    """Decodes a reply of Gemini's own API, which is sent as one JSON document."""

    origin: Origin
    is_finished: bool = False
    is_complete: bool = False
    _document: JsonObject = field(default_factory=dict)

    @property
    def api(self) -> ApiName:
        return "gemini"

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        self._document = event
        self.is_complete = self.is_finished = True
        if text := self._text:
            yield TextChunk(text)

    def reply(self) -> Reply:
        grounding = _table(self._candidate.get("groundingMetadata"))
        pages = [_page(chunk) for chunk in _tables(grounding.get("groundingChunks"))]
        queries = [query for query in grounding.get("webSearchQueries") or () if isinstance(query, str)]
        parts: list[AssistantPart] = []
        if queries or pages:
            action = {"type": "search", "queries": queries, "sources": [page for page in pages if page]}
            parts.append(ProviderItem({"type": "web_search_call", "status": "completed", "action": action}))
        parts += _cited_parts(self._text, _tables(grounding.get("groundingSupports")), pages)
        blocked = bool(_table(self._document.get("promptFeedback")).get("blockReason"))
        reason = str(self._candidate.get("finishReason") or "STOP")
        stop_reason: StopReason = "refusal" if blocked else GEMINI_STOP_REASONS.get(reason, "refusal")
        reply = build_reply(parts, self.origin.model, self._usage, stop_reason)
        count = _billed_search_count(self.origin.model, len(queries), has_searched=bool(queries or pages))
        return replace(reply, web_search_count=count, pass_count=2 if count else 1)

    @property
    def _candidate(self) -> JsonObject:
        return next(iter(_tables(self._document.get("candidates"))), {})

    @property
    def _text(self) -> str:
        parts = _tables(_table(self._candidate.get("content")).get("parts"))
        texts = (part.get("text") for part in parts if not part.get("thought"))
        return sendable_text("".join(text for text in texts if isinstance(text, str)))

    @property
    def _usage(self) -> Usage:
        def count(*names: str) -> int:
            return sum(parse_token_count(usage.get(name)) for name in names)

        usage = _table(self._document.get("usageMetadata"))
        prompt, cached = count("promptTokenCount", "toolUsePromptTokenCount"), count("cachedContentTokenCount")
        thoughts = count("thoughtsTokenCount")
        return Usage(
            max(prompt - cached, 0), min(cached, prompt), 0, count("candidatesTokenCount") + thoughts, thoughts
        )


def _billed_search_count(model: str, query_count: int, *, has_searched: bool) -> int:
    """Return the number of searches that Google charges for: each query, or one for the whole request before Gemini 3
    (ai.google.dev/gemini-api/docs/pricing)."""
    return int(has_searched) if "/gemini-2" in model else max(query_count, int(has_searched))


def _page(chunk: JsonObject) -> JsonObject:
    """Return a page with the names that the other providers use; empty if the chunk has no address."""
    web = _table(chunk.get("web"))
    return {"url": web["uri"], "title": web.get("title")} if isinstance(web.get("uri"), str) else {}


def _cited_parts(text: str, supports: list[JsonObject], pages: list[JsonObject]) -> Iterator[Text]:
    """Yield the text in pieces, each with the pages that support its end. Pieces are found by their text, because the
    offsets count bytes of one part."""
    citations_by_end: dict[int, list[JsonObject]] = {}
    position = 0
    for support in supports:
        segment_text = _table(support.get("segment")).get("text")
        if not isinstance(segment_text, str) or (start := text.find(segment_text, position)) < 0:
            continue
        position = start
        citations_by_end.setdefault(start + len(segment_text), []).extend(_supporting_pages(support, pages))
    position = 0
    for end, citations in sorted(citations_by_end.items()):
        if citations:
            yield Text(text[position:end], {"type": "text", "text": text[position:end], "citations": citations})
            position = end
    if text[position:]:
        yield Text(text[position:])


def _supporting_pages(support: JsonObject, pages: list[JsonObject]) -> Iterator[JsonObject]:
    indices = support.get("groundingChunkIndices")
    for index in indices if isinstance(indices, list) else ():
        if isinstance(index, int) and 0 <= index < len(pages) and pages[index]:
            yield pages[index]


def _dollars(amount: object, units_per_dollar: float) -> float | None:
    """Convert an amount that a provider states; None if it is no plausible amount."""
    if isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount < MAX_PLAUSIBLE_AMOUNT:
        return amount / units_per_dollar
    return None


def _table(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _tables(value: object) -> list[JsonObject]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
