"""Handles an empty reply after tool calls: asks the model for an answer; if that fails, lists what its calls have
done."""

from collections.abc import Sequence

from ebbtide.agent.messages import Assistant, Conversation, Message, Note, ToolCall, User
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.view.message_text import is_steering_message
from ebbtide.tools.outputs.extent import ellipsize

ANSWER_REQUEST = Note(
    "[Your reply was empty. Say in one sentence what you have done and with what result, or make the next call.]"
)
_MAX_NAMED_CALLS = 3
"""Maximum number of calls that the summary names. The newest are chosen."""
_MAX_CALL_CHARS = 80
"""Maximum length of a call in the summary, in characters."""


def ends_in_success(messages: Sequence[Message]) -> bool:
    """Whether the messages end in a successful output, ignoring notes from the program."""
    for message in reversed(messages):
        is_note = isinstance(message, User) and all(isinstance(part, Note) for part in message.parts)
        if not is_note:
            return isinstance(message, User) and bool(message.outputs) and message.outputs[-1].status == "done"
    return False


def build_answer_request(conversation: Conversation, *, is_small_model: bool = False) -> User | None:
    """Build a message that asks for an answer after an empty reply. None if the last call did not succeed, or if the
    model was already asked. `is_small_model`: small models are asked even after a failed call."""
    messages = conversation.messages
    if not messages or messages[-1].parts == (ANSWER_REQUEST,):
        return None
    ends_in_outputs = isinstance(messages[-1], User) and bool(messages[-1].outputs)
    return User((ANSWER_REQUEST,)) if ends_in_success(messages) or (is_small_model and ends_in_outputs) else None


def work_summary(conversation: Conversation) -> str:
    """Summarise in a sentence what the turn's calls have done, marked as written by the program. Empty if the last call
    failed."""
    if not ends_in_success(conversation.messages):
        return ""
    call_labels = list[str]()
    calls = dict[str, ToolCall]()
    for message in conversation.messages:
        if isinstance(message, Assistant):
            calls |= {call.id: call for call in message.calls}
        elif message.text and not is_steering_message(message):
            call_labels.clear()
        else:
            finished_outputs = [
                output for output in message.outputs if output.status == "done" and output.call_id in calls
            ]
            call_labels += [_call_label(executed_call(calls[output.call_id], output)) for output in finished_outputs]
    omitted_note = f"; and {len(call_labels) - _MAX_NAMED_CALLS} earlier" if len(call_labels) > _MAX_NAMED_CALLS else ""
    listed_calls = f"{'; '.join(call_labels[-_MAX_NAMED_CALLS:])}{omitted_note}"
    return f"[The model ended without text, so the program added this line. Calls that succeeded: {listed_calls}.]"


def _call_label(call: ToolCall) -> str:
    """Return the name of a call's tool, and the file, command or pattern that the call is about."""
    subject = next((call.arguments[name] for name in ("path", "command", "pattern") if name in call.arguments), "")
    return ellipsize(f"`{call.name}` {' '.join(str(subject).split())}".strip(), _MAX_CALL_CHARS)
