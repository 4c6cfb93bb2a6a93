"""Handle a turn in which the model falls silent after its calls: ask it for a sentence, or else report what was done.
Pure."""

from collections.abc import Sequence

from ebbtide.agent.context.message_text import is_steering_message
from ebbtide.agent.context.tool_selection import executed_call
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, ToolCall, User
from ebbtide.tools.outputs.extent import ellipsize

ANSWER_REQUEST = Note(
    "[Your reply was empty. Say in a sentence what you have done and what it gave, or make the next call.]"
)
_MAX_NAMED_CALLS = 3
"""Maximum number of calls named in the report; the newest are named."""
_MAX_CALL_CHARS = 80
"""Maximum characters for each call."""


def follows_success(messages: Sequence[Message]) -> bool:
    """Whether the messages end in a successful output, notes of the program aside."""
    for message in reversed(messages):
        is_note = isinstance(message, User) and all(isinstance(part, Note) for part in message.parts)
        if not is_note:
            return isinstance(message, User) and bool(message.outputs) and message.outputs[-1].status == "done"
    return False


def ask_for_answer(conversation: Conversation, *, is_led: bool = False) -> User | None:
    """Return the message that asks a silent model for an answer. None if there is nothing to report or it was already
    asked. `is_led`: a small model, which is asked after a failed call as well."""
    messages = conversation.messages
    if not messages or messages[-1].parts == (ANSWER_REQUEST,):
        return None
    has_run = isinstance(messages[-1], User) and bool(messages[-1].outputs)
    return User((ANSWER_REQUEST,)) if follows_success(messages) or (is_led and has_run) else None


def work_summary(conversation: Conversation) -> str:
    """Return what the calls of the turn have done, marked as the program's words; empty if the last one failed."""
    if not follows_success(conversation.messages):
        return ""
    done = list[str]()
    calls = dict[str, ToolCall]()
    for message in conversation.messages:
        if isinstance(message, Assistant):
            calls |= {call.id: call for call in message.calls}
        elif message.text and not is_steering_message(message):
            done.clear()
        else:
            ended = [output for output in message.outputs if output.status == "done" and output.call_id in calls]
            done += [_call_label(executed_call(calls[output.call_id], output)) for output in ended]
    more = f", after {len(done) - _MAX_NAMED_CALLS} more" if len(done) > _MAX_NAMED_CALLS else ""
    worked = f"{'; '.join(done[-_MAX_NAMED_CALLS:])}{more}"
    return f"[The model ended without a word; this line is the program's. What was done: {worked}.]"


def _call_label(call: ToolCall) -> str:
    """Describe the call by its tool and the file or command it is about."""
    about = next((call.arguments[name] for name in ("path", "command", "pattern") if name in call.arguments), "")
    return ellipsize(f"`{call.name}` {' '.join(str(about).split())}".strip(), _MAX_CALL_CHARS)
