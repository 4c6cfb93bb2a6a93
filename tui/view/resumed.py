"""The view of a resumed conversation, from its messages."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.context.attachments import attachment_labels, is_attached_picture
from ebbtide.agent.context.tool_selection import unwrapped_call
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
from ebbtide.tui.view.call_titles import within
from ebbtide.tui.view.outcomes import ENDS

if TYPE_CHECKING:  # a type only: what a turn's end is written with is loaded behind the first paint
    from ebbtide.agent.records.turn_endings import TurnEnding

_IMAGE_REFERENCE = re.compile(r"\[image #\d+")


def view_of(
    conversation: Conversation,
    folder: str = "",
    endings: "Sequence[TurnEnding]" = (),
    *,
    is_at_question: bool = False,
) -> SessionView:
    """The view of a resumed session. Calls without output are shown as interrupted, except in a step left at a
    question, which continues and shows them. `folder`: the working folder. `endings`: of the turns."""
    ends = {ending.position: ending for ending in endings}
    blocks: list[Block] = [OlderMessages(conversation.messages_before)] if conversation.messages_before else []
    if conversation.summary:
        blocks.append(SummaryBlock(conversation.summary.text))
    blocks.extend(_user_blocks(conversation.summary.request))
    calls: dict[str, int] = {}
    for position, message in enumerate(conversation.messages, conversation.messages_before + 1):
        match message:
            case User():
                _fill_outputs(blocks, calls, message, folder)
                blocks.extend(_user_blocks(message))
            case Assistant():
                for block in _assistant_blocks(message, folder):
                    if isinstance(block, Call):
                        calls[block.call_id] = len(blocks)
                    blocks.append(block)
        if position in ends:
            blocks.extend(_ending_blocks(ends[position]))
    open_calls = {call.id for call in conversation.unanswered_calls} if is_at_question else ()
    return SessionView(past=tuple(b for b in blocks if not (isinstance(b, Call) and b.call_id in open_calls)))


def newest(conversation: Conversation, count: int) -> Conversation:
    """The last `count` messages of a conversation, with the summary before them."""
    gone = len(conversation.messages) - count
    if gone <= 0:
        return conversation
    messages = whole_steps(conversation.messages[gone:])
    before = conversation.messages_before + len(conversation.messages) - len(messages)
    return Conversation(messages, messages_before=before)


def whole_steps(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages without outputs whose calls are not among them."""
    first = messages[0] if messages else None
    return tuple(messages[1:] if isinstance(first, User) and first.outputs else messages)


def _user_blocks(message: User) -> tuple[Block, ...]:
    """The user's text and attachments. An image is named unless the text or a notice does so."""
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
    parts = message.parts
    images = [
        part for index, part in enumerate(parts) if isinstance(part, Image) and not is_attached_picture(parts, index)
    ]
    words = [text] if text else []
    words += [f"[image, {image.media_type}]" for image in images[len(_IMAGE_REFERENCE.findall(text)) :]]
    attached = attachment_labels(parts)
    said: tuple[Block, ...] = (UserText("\n".join(words)),) if words else ()
    return (*said, Notice(f"attached {', '.join(attached)}")) if attached else said


def _ending_blocks(ending: "TurnEnding") -> Iterator[Block]:
    """The blocks at the end of a turn."""
    if ending.failure is not None:
        yield Failure(ending.failure.code, ending.failure.message, ending.failure.cause, ending.failure.todo)
    elif ending.end in ENDS:
        yield Notice(ENDS[ending.end])
    if ending.changed is not None:
        yield TurnTotal(files=ending.changed)


def _fill_outputs(blocks: list[Block], calls: dict[str, int], message: User, folder: str) -> None:
    for output in message.outputs:
        index = calls.pop(output.call_id, None)
        if index is not None:
            blocks[index] = _with_output(blocks[index], output, folder)


def _with_output(block: Block, output: ToolOutput, folder: str) -> Block:
    if not isinstance(block, Call):
        return block
    lines = output.stored.lines if output.stored is not None else None
    ended = Call(block.call_id, block.name, block.arguments, output.status, text=output.text, lines=lines)
    ended = replace(ended, inserted=output.inserted, program=output.program, problems=output.problems)
    return ended if output.edited is None else replace(ended, arguments=within(output.edited, folder), is_edited=True)


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
                blocks.append(Call(call.id, call.name, within(call.arguments, folder), "interrupted"))
            case ProviderItem():
                pass
    return tuple(blocks)
