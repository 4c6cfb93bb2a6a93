"""Converts requests from a server to this program's types, and answers to the SDK's types."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TypedDict

import mcp_types as types
from mcp.client.context import ClientRequestContext
from mcp.client.session import ElicitationFnT, ListRootsFnT, SamplingFnT

from ebbtide.tools.base import ImageData
from ebbtide.tools.integrations.mcp.client_handlers import (
    AcceptedAnswer,
    ClientHandlers,
    DeclinedAnswer,
    DismissedAnswer,
    ElicitationAnswer,
    SamplingMessage,
    SamplingRefusal,
    SamplingRequest,
)
from ebbtide.tools.integrations.mcp.results import decode_image
from ebbtide.tools.integrations.mcp.texts import clean_text
from ebbtide.tools.outputs.extent import truncate

_MAX_MESSAGE_CHARS = 4000
"""Maximum number of characters in a question."""
_REFUSED_CODE = -1
"""The protocol's error code for a sampling request that the user rejected."""


class Callbacks(TypedDict):
    """The SDK client's callbacks. The client announces a service to the server if its callback is not None."""

    elicitation_callback: ElicitationFnT | None
    sampling_callback: SamplingFnT | None
    list_roots_callback: ListRootsFnT | None


def create_client_callbacks(
    server: str, handlers: ClientHandlers, pause_timeouts: Callable[[], AbstractContextManager[None]]
) -> Callbacks:
    """Create callbacks that ask the handlers. While they wait for an answer, `pause_timeouts` pauses the timeouts of
    the server's calls."""

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        with pause_timeouts():
            match params:
                case types.ElicitRequestURLParams():
                    return _elicit_result(await ask_to_open_page(server, handlers, params), {}, is_form=False)
                case types.ElicitRequestFormParams():
                    schema = params.requested_schema
                    answer = await handlers.elicit(server, _clean_question(params.message), schema, "")
                    return _elicit_result(answer, schema, is_form=True)

    async def sample(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        with pause_timeouts():
            reply = await handlers.sample(server, _sample_request(params))
        if isinstance(reply, SamplingRefusal):
            return types.ErrorData(code=_REFUSED_CODE, message=reply.reason)
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=reply.text),
            model=reply.model,
            stop_reason=reply.stop_reason,
        )

    async def roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate(
            {"roots": [{"uri": root.as_uri(), "name": root.name} for root in handlers.roots()]}
        )

    return {
        "elicitation_callback": elicit if "elicitation" in handlers.services else None,
        "sampling_callback": sample if "sampling" in handlers.services else None,
        "list_roots_callback": roots if "roots" in handlers.services else None,
    }


async def ask_to_open_page(
    server: str, handlers: ClientHandlers, page: types.ElicitRequestURLParams
) -> ElicitationAnswer:
    """Ask the user to open a web address. Addresses with spaces or unprintable characters are declined: they could be
    mistaken for others, or contain extra text."""
    if not page.url.startswith(("https://", "http://")) or not page.url.isprintable() or " " in page.url:
        return DeclinedAnswer()
    return await handlers.elicit(server, _clean_question(page.message), {}, page.url)


def _clean_question(message: str) -> str:
    return truncate(clean_text(message[: 2 * _MAX_MESSAGE_CHARS]), _MAX_MESSAGE_CHARS)


def _elicit_result(answer: ElicitationAnswer, schema: Mapping[str, object], *, is_form: bool) -> types.ElicitResult:
    match answer:
        case AcceptedAnswer(content=content):
            values = _form_defaults(schema)
            values |= {name: list(value) if isinstance(value, tuple) else value for name, value in content.items()}
            return types.ElicitResult.model_validate({"action": "accept", "content": values if is_form else None})
        case DeclinedAnswer():
            return types.ElicitResult(action="decline")
        case DismissedAnswer():
            return types.ElicitResult(action="cancel")


def _form_defaults(schema: Mapping[str, object]) -> dict[str, object]:
    """Return the default values of a form. They apply to fields that the user left unchanged."""
    fields = schema.get("properties")
    return {
        str(name): field["default"]
        for name, field in (fields.items() if isinstance(fields, Mapping) else ())
        if isinstance(field, Mapping) and "default" in field
    }


def _sample_request(params: types.CreateMessageRequestParams) -> SamplingRequest:
    return SamplingRequest(
        messages=tuple(_sampling_message(message) for message in params.messages),
        max_tokens=params.max_tokens,
        system_prompt=params.system_prompt or "",
        stop_sequences=tuple(params.stop_sequences or ()),
    )


def _sampling_message(message: types.SamplingMessage) -> SamplingMessage:
    blocks = message.content if isinstance(message.content, list) else [message.content]
    return SamplingMessage(message.role, "\n".join(_block_texts(blocks)), tuple(_block_images(blocks)))


def _block_texts(blocks: Iterable[types.SamplingMessageContentBlock]) -> Iterable[str]:
    for block in blocks:
        match block:
            case types.TextContent():
                yield block.text
            case types.ImageContent():
                if decode_image(block.data, block.mime_type) is None:
                    yield f"[an image of an unsupported type: {block.mime_type}]"
            case types.AudioContent() | types.ToolUseContent() | types.ToolResultContent():
                yield f"[{block.type}: it cannot be passed on]"


def _block_images(blocks: Iterable[types.SamplingMessageContentBlock]) -> Iterable[ImageData]:
    for block in blocks:
        if isinstance(block, types.ImageContent) and (image := decode_image(block.data, block.mime_type)) is not None:
            yield image
