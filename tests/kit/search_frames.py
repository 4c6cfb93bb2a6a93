"""Streams in which a provider searches the web by itself, made from the types of the providers' own SDKs.

Turn(raw=anthropic_stream([searched("s1", "tokyo"), found("s1", TOKYO), cited("It is warm.", TOKYO)]))
Turn(raw=openai_stream([searches("ws_1", "tokyo", TOKYO), answer("It is warm. ([Weather](https://…))", …)]))
"""

import json
from collections.abc import Iterator, Sequence

import anthropic.types as claude
from anthropic.types import raw_message_delta_event
from openai.types import responses as gpt
from openai.types.responses import response as whole_response
from openai.types.responses import response_function_web_search as web_search
from openai.types.responses import response_output_text as output_text
from openai.types.responses import response_usage as gpt_usage
from pydantic import BaseModel

from tests.kit.fake_frames import Json, named

PAGES = (
    ("https://docs.example.org/a", "Release notes", "2 days ago"),
    ("https://blog.example.org/b", "A blog", None),
)
"""Pages that a search finds: address, title and age."""
Page = tuple[str, str, str | None]


def as_json(model: BaseModel) -> Json:
    return model.model_dump(mode="json")


def searched(id: str, query: str) -> claude.ServerToolUseBlock:
    return claude.ServerToolUseBlock(id=id, name="web_search", input={"query": query}, type="server_tool_use")


def found(id: str, pages: Sequence[Page] = PAGES) -> claude.WebSearchToolResultBlock:
    results = [
        claude.WebSearchResultBlock(
            type="web_search_result", url=url, title=title, page_age=age, encrypted_content=f"sealed {url}"
        )
        for url, title, age in pages
    ]
    return claude.WebSearchToolResultBlock(tool_use_id=id, content=results, type="web_search_tool_result")


def failed(id: str, code: claude.WebSearchToolResultErrorCode) -> claude.WebSearchToolResultBlock:
    error = claude.WebSearchToolResultErrorObject(error_code=code, type="web_search_tool_result_error")
    return claude.WebSearchToolResultBlock(tool_use_id=id, content=error, type="web_search_tool_result")


def cited(text: str, *pages: Page) -> claude.TextBlock:
    citations: list[claude.TextCitation] = [
        claude.CitationsWebSearchResultLocation(
            type="web_search_result_location", url=url, title=title, cited_text=text, encrypted_index=f"index {url}"
        )
        for url, title, _ in pages
    ]
    return claude.TextBlock(text=text, citations=citations or None, type="text")


def anthropic_stream(
    blocks: Sequence[claude.ContentBlock],
    stop: claude.StopReason = "end_turn",
    searches: int | None = 1,
    tokens: tuple[int, int] = (3000, 100),
) -> str:
    """`searches`: how many are charged for; None sends no count. `tokens`: of input and output."""
    usage = claude.Usage(input_tokens=tokens[0], output_tokens=1)
    message = claude.Message(
        id="msg_1", content=[], model="m", role="assistant", type="message", stop_reason=None, usage=usage
    )  # fmt: skip
    events: list[BaseModel] = [claude.RawMessageStartEvent(message=message, type="message_start")]
    for index, block in enumerate(blocks):
        events += _anthropic_block(index, block)
    counted = None if searches is None else claude.ServerToolUsage(web_search_requests=searches, web_fetch_requests=0)
    ended = raw_message_delta_event.Delta(stop_reason=stop)
    total = claude.MessageDeltaUsage(output_tokens=tokens[1], server_tool_use=counted)
    events += [
        claude.RawMessageDeltaEvent(delta=ended, usage=total, type="message_delta"),
        claude.RawMessageStopEvent(type="message_stop"),
    ]
    return "".join(named(as_json(event)) for event in events)


def _anthropic_block(index: int, block: claude.ContentBlock) -> Iterator[BaseModel]:
    """A text and the input of a search arrive in deltas, the results of a search with its start."""
    start, deltas = block, list[claude.RawContentBlockDelta]()
    match block:
        case claude.TextBlock(text=text, citations=citations):
            start = claude.TextBlock(text="", citations=None if citations is None else [], type="text")
            deltas = [claude.TextDelta(text=text, type="text_delta")]
            deltas += [claude.CitationsDelta(citation=one, type="citations_delta") for one in citations or ()]
        case claude.ServerToolUseBlock(input=given):
            start = block.model_copy(update={"input": {}})
            deltas = [claude.InputJSONDelta(partial_json=json.dumps(given), type="input_json_delta")]
    yield claude.RawContentBlockStartEvent(content_block=start, index=index, type="content_block_start")
    for delta in deltas:
        yield claude.RawContentBlockDeltaEvent(delta=delta, index=index, type="content_block_delta")
    yield claude.RawContentBlockStopEvent(index=index, type="content_block_stop")


def searches(
    id: str, query: str, pages: Sequence[Page] | None = PAGES, status: str = "completed"
) -> gpt.ResponseFunctionWebSearch:
    sources = None if pages is None else [web_search.ActionSearchSource(type="url", url=url) for url, _, _ in pages]
    return gpt.ResponseFunctionWebSearch.model_validate(
        {
            "id": id,
            "status": status,
            "type": "web_search_call",
            "action": web_search.ActionSearch(type="search", query=query, queries=[query], sources=sources),
        }
    )


def opens(id: str, action: web_search.Action) -> gpt.ResponseFunctionWebSearch:
    return gpt.ResponseFunctionWebSearch(id=id, status="completed", type="web_search_call", action=action)


def answer(text: str, *pages: Page) -> gpt.ResponseOutputMessage:
    """The text with a mark wherever it links one of the pages as `([TITLE](URL))`."""
    marks: list[output_text.Annotation] = []
    for url, title, _ in pages:
        link = f"([{title}]({url}))"
        start = text.index(link)
        marks.append(
            output_text.AnnotationURLCitation(
                type="url_citation", url=url, title=title, start_index=start, end_index=start + len(link)
            )
        )
    content = gpt.ResponseOutputText(annotations=marks, text=text, type="output_text")
    return gpt.ResponseOutputMessage(
        id="msg_1", content=[content], role="assistant", status="completed", type="message"
    )


def openai_stream(
    items: Sequence[gpt.ResponseOutputItem], searches: int | None = 1, tokens: tuple[int, int] = (3000, 100)
) -> str:
    """As `anthropic_stream`."""
    events: list[BaseModel] = []
    for index, item in enumerate(items):
        events += _openai_item(index, item)
    details = gpt_usage.InputTokensDetails(cached_tokens=0, cache_write_tokens=0)
    usage = gpt.ResponseUsage(
        input_tokens=tokens[0],
        input_tokens_details=details,
        output_tokens=tokens[1],
        output_tokens_details=gpt_usage.OutputTokensDetails(reasoning_tokens=0),
        total_tokens=sum(tokens),
    )
    counted = None if searches is None else {"web_search": whole_response.ToolUsageWebSearch(num_requests=searches)}
    response = gpt.Response.model_construct(
        id="resp_1", object="response", status="completed", output=list(items), usage=usage, tool_usage=counted
    )
    completed = gpt.ResponseCompletedEvent.model_construct(
        response=response, sequence_number=99, type="response.completed"
    )
    frames = [as_json(event) for event in events]
    frames.append(completed.model_dump(mode="json", warnings=False))
    return "".join(named(frame) for frame in frames)


def _openai_item(index: int, item: gpt.ResponseOutputItem) -> Iterator[BaseModel]:
    def event(kind: type[BaseModel], type: str, **fields: object) -> BaseModel:
        return kind.model_validate({"output_index": index, "sequence_number": index, "type": type, **fields})

    started = item.model_copy(update={"content": []} if isinstance(item, gpt.ResponseOutputMessage) else {})
    yield event(gpt.ResponseOutputItemAddedEvent, "response.output_item.added", item=started.model_dump())
    match item:
        case gpt.ResponseFunctionWebSearch(id=id):
            searching, completed = gpt.ResponseWebSearchCallSearchingEvent, gpt.ResponseWebSearchCallCompletedEvent
            yield event(searching, "response.web_search_call.searching", item_id=id)
            yield event(completed, "response.web_search_call.completed", item_id=id)
        case gpt.ResponseOutputMessage(id=id, content=[gpt.ResponseOutputText(text=text, annotations=marks)]):
            at = {"item_id": id, "content_index": 0}
            yield event(gpt.ResponseTextDeltaEvent, "response.output_text.delta", delta=text, logprobs=[], **at)
            for number, mark in enumerate(marks):
                yield event(
                    gpt.ResponseOutputTextAnnotationAddedEvent,
                    "response.output_text.annotation.added",
                    annotation=mark.model_dump(),
                    annotation_index=number,
                    **at,
                )
    yield event(gpt.ResponseOutputItemDoneEvent, "response.output_item.done", item=item.model_dump())
