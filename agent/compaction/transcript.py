"""A conversation as text chunks for a model that has not seen it. Pure."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.compaction.plan import CompactionPlan
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, User
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.stubs import is_worth_masking, one_line, outcome_line
from ebbtide.agent.view.visible import is_replaceable, numbered_outputs


def transcript(plan: CompactionPlan, output_tokens: int = 400) -> tuple[str, ...]:
    """Return the text to be summarised, in one or more pieces per message, with long outputs clipped."""
    texts = [f"[earlier summary]\n{plan.earlier_summary.text}"] if plan.earlier_summary.text else []
    number = plan.outputs_before
    for message in plan.covered:
        texts.extend(_message_texts(message, output_tokens, number))
        number += len(message.outputs) if isinstance(message, User) else 0
    return tuple(texts)


def output_reference_lines(plan: CompactionPlan, tokens: int = 300) -> tuple[str, ...]:
    """Return one line with the reference of each of the newest long outputs that the summary covers, within
    `tokens`."""
    covered = Conversation(plan.covered, outputs_before=plan.outputs_before)
    lines = list[str]()
    for found in reversed(numbered_outputs(covered)):
        if not is_worth_masking(found.output):
            continue
        line = f"- [{found.ref}] {one_line(outcome_line(found.call, found.output), 100)}"
        tokens -= estimate_text(line + "\n")
        if tokens < 0:
            break
        lines.append(line)
    return tuple(reversed(lines))


def _message_texts(message: Message, output_tokens: int, number: int) -> Iterator[str]:
    """Yield the texts of a message. `number`: number of outputs in the session before the message."""
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
    for index, output in enumerate(message.outputs, number + 1):
        yield f"[output r{index}, {output.status}]\n{_clip(output.text, output_tokens)}"


def _clip(text: str, tokens: int) -> str:
    """Return the text, or only its head and tail if it exceeds `tokens`."""
    if estimate_text(text) <= tokens:
        return text
    end_chars = max(tokens, 2)
    return f"{text[:end_chars]}\n[…]\n{text[-end_chars:]}"


def split_into_chunks(pieces: Sequence[str], tokens: int) -> tuple[str, ...]:
    """Join the pieces into chunks of at most `tokens` each; larger pieces are split."""
    complete: list[str] = []
    current, size = "", 0
    for piece in pieces:
        for part in _split(piece, tokens):
            cost = estimate_text(part) + 2
            if current and size + cost > tokens:
                complete.append(current)
                current, size = "", 0
            current, size = f"{current}\n\n{part}" if current else part, size + cost
    return (*complete, current) if current else tuple(complete)


def _split(text: str, tokens: int) -> Iterator[str]:
    if estimate_text(text) + 2 <= tokens:
        yield text
        return
    width = max(tokens * 2 // 3 - 2, 1)  # safe, because no character is estimated at more than 1.5 tokens
    for start in range(0, len(text), width):
        yield text[start : start + width]
