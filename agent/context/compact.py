"""Which part of a conversation a summary stands for, and what the conversation is afterwards. Pure."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.context.estimate import estimate_message, estimate_text
from agent.messages import Assistant, Conversation, Message, Text, ToolCall, User

INSTRUCTION = """\
The context window is nearly full. Write down what is needed to go on without the messages above; they will no longer \
be visible. Call no tool. Answer with one `<summary>` element and nothing else:

<summary>
- the user's goals and every constraint they stated, in their own words
- what is done, and what is still open
- files read and changed, with what matters about each
- decisions taken and why; what was tried and failed
- commands that run, their last result, and anything still running in the background
</summary>"""

_SUMMARY = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Where a conversation is cut: always between steps, so that no call is parted from its output."""

    earlier: str
    """The summary that already stood for what came before."""
    covered: tuple[Message, ...]
    """What the new summary will stand for."""
    tail: tuple[Message, ...]
    """What stays as it is."""
    request: str
    """The open turn's user message, when it is covered: it is kept word for word."""


def plan_compaction(conversation: Conversation, tail_tokens: int) -> CompactionPlan | None:
    """The plan that keeps the newest whole steps up to `tail_tokens`, and at least the last one. None when there is
    nothing before them to summarise."""
    messages = conversation.messages
    starts = [index for index, message in enumerate(messages) if _starts_step(message)]
    if not starts:
        return None
    cut, size = len(messages), 0
    for index in range(len(messages) - 1, -1, -1):
        size += estimate_message(messages[index])
        if size > tail_tokens and cut < len(messages):
            break
        if index in starts:
            cut = index
    if cut == 0:
        return None
    return CompactionPlan(conversation.summary, messages[:cut], messages[cut:], _open_request(messages, cut))


def _starts_step(message: Message) -> bool:
    return isinstance(message, Assistant) or not message.outputs


def _open_request(messages: Sequence[Message], cut: int) -> str:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, User) and message.text:
            return message.text if index < cut else ""
    return ""


def summary_request(focus: str | None = None) -> User:
    """The message that asks for the summary, appended to the conversation as it was last sent, so that the provider's
    cache serves all of it."""
    wish = f"\n\nPay most attention to this: {focus}" if focus else ""
    return User((Text(INSTRUCTION + wish),))


def read_summary(text: str) -> str | None:
    """The summary in a reply, or None when there is none: no closed element, or an empty one."""
    match = _SUMMARY.search(text)
    return (match[1].strip() or None) if match else None


def apply_summary(plan: CompactionPlan, summary: str) -> Conversation:
    """The conversation after the compaction: the summary, the open request word for word, and the tail."""
    if plan.request:
        summary += f"\n\nThe request that is being worked on, word for word:\n{plan.request}"
    return Conversation(plan.tail, summary)


def is_worth_it(plan: CompactionPlan, summary: str) -> bool:
    """Whether the summary is smaller than what it stands for by at least a tenth."""
    covered = sum(estimate_message(message) for message in plan.covered) + estimate_text(plan.earlier)
    return estimate_text(summary) + estimate_text(plan.request) < 0.9 * covered


def plain_summary(plan: CompactionPlan, max_chars: int = 6000) -> str:
    """A summary made without a model: what the user said and which calls were made, newest kept when space runs out."""
    lines = [f"Earlier summary: {_clip(plan.earlier, max_chars // 3)}"] if plan.earlier else []
    for message in plan.covered:
        if isinstance(message, User):
            lines += [f"The user said: {_clip(message.text, 800)}"] if message.text else []
        else:
            lines += [f"Called {_condensed(call)}" for call in message.calls]
    kept: list[str] = []
    room = max_chars
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            kept.append(f"[{len(lines) - len(kept)} earlier entries are left out; they are kept in the session's log]")
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def _condensed(call: ToolCall) -> str:
    return f"{call.name} {_clip(json.dumps(call.arguments, ensure_ascii=False), 160)}"


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
