"""Renders a conversation as chunks of text for a model that has not seen it."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.compaction.plan import CompactionPlan
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, User
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.stubs import is_worth_masking, one_line, outcome_line
from ebbtide.agent.view.visible import is_replaceable, numbered_outputs


def render_transcript(plan: CompactionPlan, max_output_tokens: int = 400) -> tuple[str, ...]:
    """Render the text to be summarised, in one or more pieces per message, with long outputs clipped."""
    texts = [f"[earlier summary]\n{plan.earlier_summary.text}"] if plan.earlier_summary.text else []
    output_count = plan.outputs_before
    for message in plan.covered_messages:
        texts.extend(_message_texts(message, max_output_tokens, output_count))
        output_count += len(message.outputs) if isinstance(message, User) else 0
    return tuple(texts)


def output_reference_lines(plan: CompactionPlan, max_tokens: int = 300) -> tuple[str, ...]:
    """List the long outputs that the summary covers, oldest first, each on a line with its reference. If they do not
    all fit into `max_tokens`, only the newest are listed."""
    covered = Conversation(plan.covered_messages, outputs_before=plan.outputs_before)
    lines = list[str]()
    for numbered in reversed(numbered_outputs(covered)):
        if not is_worth_masking(numbered.output):
            continue
        line = f"- [{numbered.ref}] {one_line(outcome_line(numbered.call, numbered.output), 100)}"
        max_tokens -= estimate_text(line + "\n")
        if max_tokens < 0:
            break
        lines.append(line)
    return tuple(reversed(lines))


def _message_texts(message: Message, output_tokens: int, output_count: int) -> Iterator[str]:
    """Yield the pieces of text for a message. `output_count`: number of outputs in the session before the message."""
    if isinstance(message, Assistant):
        calls = [
            f"[called {call.name}] {one_line(call.source or str(dict(call.arguments)), 600)}" for call in message.calls
        ]
        lines = [f"[the model said]\n{message.text}"] if message.text else []
        if lines or calls:
            yield "\n".join(lines + calls)
        return
    if message.text:
        yield f"[the user said]\n{message.text}"
    for part in message.parts:
        if isinstance(part, Note) and is_replaceable(part):
            yield f"[it came with]\n{_clip(part.text, output_tokens)}"
    for output_number, output in enumerate(message.outputs, output_count + 1):
        yield f"[output r{output_number}, {output.status}]\n{_clip(output.text, output_tokens)}"


def _clip(text: str, max_tokens: int) -> str:
    """Shorten text to its start and end if it exceeds `max_tokens`."""
    if estimate_text(text) <= max_tokens:
        return text
    chars_per_end = max(max_tokens, 2)
    return f"{text[:chars_per_end]}\n[…]\n{text[-chars_per_end:]}"


def split_into_chunks(pieces: Sequence[str], max_tokens: int) -> tuple[str, ...]:
    """Join the pieces into chunks of at most `max_tokens` tokens each; larger pieces are split."""
    chunks: list[str] = []
    chunk, chunk_tokens = "", 0
    for piece in pieces:
        for part in _split(piece, max_tokens):
            part_tokens = estimate_text(part) + 2
            if chunk and chunk_tokens + part_tokens > max_tokens:
                chunks.append(chunk)
                chunk, chunk_tokens = "", 0
            chunk, chunk_tokens = f"{chunk}\n\n{part}" if chunk else part, chunk_tokens + part_tokens
    return (*chunks, chunk) if chunk else tuple(chunks)


def _split(text: str, max_tokens: int) -> Iterator[str]:
    if estimate_text(text) + 2 <= max_tokens:
        yield text
        return
    max_chars = max(max_tokens * 2 // 3 - 2, 1)  # safe, because no character is estimated at more than 1.5 tokens
    for start in range(0, len(text), max_chars):
        yield text[start : start + max_chars]
