"""The end of a turn whose model falls silent after its calls: it is asked for a sentence, or else a line says what was
done. Pure."""

from collections.abc import Sequence

from ebbtide.agent.context.message_text import is_steering_message
from ebbtide.agent.context.tool_selection import executed_call
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, ToolCall, User
from ebbtide.tools.outputs.extent import ellipsize

ANSWER_REQUEST = Note(
    "[Your reply was empty. Say in a sentence what you have done and what it gave, or make the next call.]"
)
_MAX_NAMED_CALLS = 3
"""Calls that the line names, the newest ones."""
_MAX_CALL_CHARS = 80
"""Characters that it says of each."""


def follows_success(messages: Sequence[Message]) -> bool:
    """Whether messages end in the output of a call that did what it was to do, notes of the program aside."""
    for message in reversed(messages):
        is_note = isinstance(message, User) and all(isinstance(part, Note) for part in message.parts)
        if not is_note:
            return isinstance(message, User) and bool(message.outputs) and message.outputs[-1].status == "done"
    return False


def ask_for_answer(conversation: Conversation, *, is_led: bool = False) -> User | None:
    """What asks a model for a sentence that has answered a conversation with nothing; None where there is nothing to
    say, and where it was asked already. `is_led`: it is a small one, which is asked behind a failure as well."""
    messages = conversation.messages
    if not messages or messages[-1].parts == (ANSWER_REQUEST,):
        return None
    has_run = isinstance(messages[-1], User) and bool(messages[-1].outputs)
    return User((ANSWER_REQUEST,)) if follows_success(messages) or (is_led and has_run) else None


def work_summary(conversation: Conversation) -> str:
    """What the calls of the turn have done, in the program's words and marked as such; empty where the last one has
    failed."""
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
    """The call in a few words: its tool, and the file or the command that it is about."""
    about = next((call.arguments[name] for name in ("path", "command", "pattern") if name in call.arguments), "")
    return ellipsize(f"`{call.name}` {' '.join(str(about).split())}".strip(), _MAX_CALL_CHARS)
