"""A conversation as text chunks for a model that has not seen it. Pure."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.context.compaction import CompactionPlan
from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.mask import is_at_length, is_worth_a_line, numbered_outputs, one_line, outcome_line
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, User


def transcript(plan: CompactionPlan, output_tokens: int = 400) -> tuple[str, ...]:
    """Return the text to be summarised, one piece for each message, with outputs clipped."""
    pieces = [f"[earlier summary]\n{plan.earlier.text}"] if plan.earlier.text else []
    number = plan.outputs_before
    for message in plan.covered:
        pieces.extend(_message_texts(message, output_tokens, number))
        number += len(message.outputs) if isinstance(message, User) else 0
    return tuple(pieces)


def named_outputs(plan: CompactionPlan, tokens: int = 300) -> tuple[str, ...]:
    """Return one line with its reference for each of the newest long outputs to be summarised, within `tokens`."""
    covered = Conversation(plan.covered, outputs_before=plan.outputs_before)
    lines = list[str]()
    for found in reversed(numbered_outputs(covered)):
        if not is_worth_a_line(found.output):
            continue
        line = f"- [{found.ref}] {one_line(outcome_line(found.call, found.output), 100)}"
        tokens -= estimate_text(line + "\n")
        if tokens < 0:
            break
        lines.append(line)
    return tuple(reversed(lines))


def _message_texts(message: Message, output_tokens: int, number: int) -> Iterator[str]:
    """Yield the texts of a message. `number`: number of the output before its first one."""
    if isinstance(message, Assistant):
        calls = [
            f"[called {call.name}] {one_line(call.source or str(dict(call.arguments)), 600)}" for call in message.calls
        ]
        said = [f"[the model said]\n{message.text}"] if message.text else []
        if said or calls:
            yield "\n".join(said + calls)
        return
    if message.text:
        yield f"[the user said]\n{message.text}"
    for part in message.parts:
        if isinstance(part, Note) and is_at_length(part):
            yield f"[it came with]\n{_clip(part.text, output_tokens)}"
    for index, output in enumerate(message.outputs, number + 1):
        yield f"[output r{index}, {output.status}]\n{_clip(output.text, output_tokens)}"


def _clip(text: str, tokens: int) -> str:
    """Return head and tail of a text."""
    if estimate_text(text) <= tokens:
        return text
    half = max(tokens, 2)
    return f"{text[:half]}\n[…]\n{text[-half:]}"


def chunks(pieces: Sequence[str], tokens: int) -> tuple[str, ...]:
    """Join the pieces into chunks of at most `tokens` each; larger pieces are split."""
    made: list[str] = []
    current, size = "", 0
    for piece in pieces:
        for part in _split(piece, tokens):
            cost = estimate_text(part) + 2
            if current and size + cost > tokens:
                made.append(current)
                current, size = "", 0
            current, size = f"{current}\n\n{part}" if current else part, size + cost
    return (*made, current) if current else tuple(made)


def _split(piece: str, tokens: int) -> Iterator[str]:
    if estimate_text(piece) + 2 <= tokens:
        yield piece
        return
    width = max(tokens * 2 // 3 - 2, 1)  # no character is estimated above 1.5 tokens
    for start in range(0, len(piece), width):
        yield piece[start : start + width]
