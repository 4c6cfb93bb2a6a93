"""Builds the view of a resumed conversation from its messages."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Image,
    Message,
    ProviderItem,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.prompt.attachments import attachment_labels, is_attached_image
from ebbtide.agent.tool_specs import unwrapped_call
from ebbtide.agent.view.sources import cited_sources, sources_text
from ebbtide.tui.view.blocks import (
    AnswerText,
    Block,
    Call,
    Failure,
    Notice,
    OlderMessages,
    ReasoningBlock,
    SessionView,
    SummaryBlock,
    TurnTotal,
    UserText,
)
from ebbtide.tui.view.call_titles import with_relative_arguments
from ebbtide.tui.view.outcomes import TURN_END_MESSAGES

if TYPE_CHECKING:  # this module loads only after the first paint
    from ebbtide.agent.records.turn_endings import TurnEnding

_IMAGE_REFERENCE = re.compile(r"\[image #\d+")


def build_resumed_view(
    conversation: Conversation,
    folder: str = "",
    endings: "Sequence[TurnEnding]" = (),
    *,
    has_open_question: bool = False,
) -> SessionView:
    """Build the view of a resumed session. Calls without output are shown as interrupted. If the session was left while
    a question was open, the calls of that step are left out until the step continues. `folder`: the working folder.
    `endings`: how the turns ended."""
    endings_by_position = {ending.position: ending for ending in endings}
    blocks: list[Block] = [OlderMessages(conversation.messages_before)] if conversation.messages_before else []
    if conversation.summary:
        blocks.append(SummaryBlock(conversation.summary.text))
    blocks.extend(_user_blocks(conversation.summary.request))
    call_indexes: dict[str, int] = {}
    for position, message in enumerate(conversation.messages, conversation.messages_before + 1):
        match message:
            case User():
                _fill_outputs(blocks, call_indexes, message, folder)
                blocks.extend(_user_blocks(message))
            case Assistant():
                for block in _assistant_blocks(message, folder):
                    if isinstance(block, Call):
                        call_indexes[block.call_id] = len(blocks)
                    blocks.append(block)
        if position in endings_by_position:
            blocks.extend(_ending_blocks(endings_by_position[position]))
    open_call_ids = {call.id for call in conversation.unanswered_calls} if has_open_question else ()
    return SessionView(
        past_blocks=tuple(
            past_block
            for past_block in blocks
            if not (isinstance(past_block, Call) and past_block.call_id in open_call_ids)
        )
    )


def newest_messages(conversation: Conversation, count: int) -> Conversation:
    """Get the last `count` messages of a conversation. Outputs are left out if their calls are not among these
    messages."""
    omitted_count = len(conversation.messages) - count
    if omitted_count <= 0:
        return conversation
    messages = without_orphaned_outputs(conversation.messages[omitted_count:])
    messages_before = conversation.messages_before + len(conversation.messages) - len(messages)
    return Conversation(messages, messages_before=messages_before)


def without_orphaned_outputs(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Drop the first message if it contains outputs whose calls are missing."""
    first_message = messages[0] if messages else None
    return tuple(messages[1:] if isinstance(first_message, User) and first_message.outputs else messages)


def _user_blocks(message: User) -> tuple[Block, ...]:
    """Build the blocks of the user's text and attachments. An image is named unless the text or a notice already names
    it."""
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
    parts = message.parts
    images = [
        part for index, part in enumerate(parts) if isinstance(part, Image) and not is_attached_image(parts, index)
    ]
    texts = [text] if text else []
    texts += [f"[image, {image.media_type}]" for image in images[len(_IMAGE_REFERENCE.findall(text)) :]]
    attachments = attachment_labels(parts)
    user_blocks: tuple[Block, ...] = (UserText("\n".join(texts)),) if texts else ()
    return (*user_blocks, Notice(f"attached {', '.join(attachments)}")) if attachments else user_blocks


def _ending_blocks(ending: "TurnEnding") -> Iterator[Block]:
    """Yield the blocks for the end of a turn."""
    if ending.failure is not None:
        yield Failure(ending.failure.code, ending.failure.message, ending.failure.cause, ending.failure.todo)
    elif ending.end in TURN_END_MESSAGES and ending.end != "interrupted":
        yield Notice(TURN_END_MESSAGES[ending.end])
    if ending.changed_files is not None or ending.end == "interrupted":
        yield TurnTotal(files=ending.changed_files, is_interrupted=ending.end == "interrupted")


def _fill_outputs(blocks: list[Block], call_indexes: dict[str, int], message: User, folder: str) -> None:
    for output in message.outputs:
        index = call_indexes.pop(output.call_id, None)
        if index is not None:
            blocks[index] = _with_output(blocks[index], output, folder)


def _with_output(block: Block, output: ToolOutput, folder: str) -> Block:
    if not isinstance(block, Call):
        return block
    line_count = output.stored.lines if output.stored is not None else None
    finished_call = Call(block.call_id, block.name, block.arguments, output.status, text=output.text, lines=line_count)
    finished_call = replace(finished_call, inserted=output.inserted, program=output.program, problems=output.problems)
    return (
        finished_call
        if output.edited is None
        else replace(finished_call, arguments=with_relative_arguments(output.edited, folder), is_edited=True)
    )


def _assistant_blocks(message: Assistant, folder: str) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                blocks.append(AnswerText(text))
            case Reasoning(text=text):
                if text:
                    blocks.append(ReasoningBlock(text))
            case ToolCall():
                call = unwrapped_call(part)
                blocks.append(Call(call.id, call.name, with_relative_arguments(call.arguments, folder), "interrupted"))
            case ProviderItem():
                pass
    sources = cited_sources(message)
    return (*blocks, Notice(sources_text(sources))) if sources else tuple(blocks)
