"""Answers of small models that show a change or a command in place of making it, or tell of one that was never made:
they are asked for it, twice in a turn at most. Pure."""

from collections.abc import Iterator, Sequence

from agent.context.fenced import pieces_in
from agent.context.message_text import joins_turn
from agent.context.tool_selection import as_run
from agent.messages import Assistant, Conversation, Message, Note, ToolCall, User
from tools.lazy import regex

MOST_ASKED = 2
_UNDONE = "[So far nothing was changed"
_SHOWN = ": what you show is no call"
_WISHED = "This is to be done now: {}\nAnswer with the call alone, or say in one sentence why it cannot be done.]"
LONGEST = 2_000
"""Characters of the files, and of the user's words, that are said once more."""

_WISH = regex(
    r"(?:^|[.!?;:,\n]\s*|\b(?:please|and|then|should|must|to|you)\s+)"
    r"(?:add|append|apply|bump|change|comment|convert|copy|correct|create|delete|drop|edit|ensure|extend|fix|format|"
    r"implement|insert|make|mend|move|modify|put|refactor|remove|rename|repair|replace|rewrite|set|sort|swap|switch|"
    r"turn|update|upgrade|use|write)\b",
)
"""How a wish for a change begins."""
_ASKS = regex(r"^\s*(?:how|what|which|who|where|why|when|explain|show|tell|describe|list|is|are|does|do|can)\b")
_CHANGERS = ("write", "edit", "apply_patch", "edit_notebook")
_LOOKS = regex(
    r"\s*(?:cd [^&;]*(?:&&|;)\s*)?(?:cat|ls|grep|rg|head|tail|wc|find|pwd|echo(?![^\n]*>)|sed -n|python3?|node|pytest|"
    r"npm (?:test|run)|(?:go|cargo) (?:test|run|build)|make|git (?:status|diff|log|show)|which|file|stat)\b"
)
"""How a command begins that changes no file that anybody would have asked to be changed."""


def asked_for_work(conversation: Conversation) -> User | None:
    """What asks a model to make the change that its last reply, which ends the turn, only speaks of; None where nothing
    was to be changed, where something was, and where it was asked already."""
    messages = conversation.messages
    start = _turn_start(messages)
    if start is None or not isinstance(answer := messages[-1], Assistant) or answer.calls:
        return None
    said, turn = messages[start], messages[start + 1 :]
    assert isinstance(said, User)
    asked = sum(isinstance(message, User) and message.has_note("undone") for message in turn)
    if asked >= MOST_ASKED or not wants_change(said.text) or any(changes_of(conversation)):
        return None
    return User((Note(_told(said, is_shown=bool(pieces_in(answer.text))), kind="undone"),))


def _told(said: User, *, is_shown: bool) -> str:
    """Once more what is to be done, and where: at this place it is read best."""
    files = [part for part in said.parts if isinstance(part, Note) and part.kind == "file"]
    texts = [f"`{file.name}` still holds:\n{file.text[file.heading :].rstrip()}" for file in files]
    shown = "\n\n".join(texts) if sum(map(len, texts)) <= LONGEST else ""
    held = f". {shown}\n\n" if shown else ". "
    return f"{_UNDONE}{_SHOWN if is_shown else ''}{held}{_WISHED.format(said.text[:LONGEST].strip())}"


def wants_change(text: str) -> bool:
    """Whether somebody wishes that something is changed."""
    plain = text.casefold()
    return _WISH.search(plain) is not None and not (_ASKS.match(plain) and plain.rstrip().endswith("?"))


def _turn_start(messages: Sequence[Message]) -> int | None:
    """Where the user's message stands that began the turn."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, User) and message.text and not joins_turn(message):
            return place
    return None


def said_in_turn(conversation: Conversation) -> User | None:
    """The user's message that began the turn."""
    start = _turn_start(conversation.messages)
    message = conversation.messages[start] if start is not None else None
    return message if isinstance(message, User) else None


def changes_of(conversation: Conversation) -> Iterator[ToolCall]:
    """The calls of the last turn that have changed something, as far as their kind tells."""
    calls, messages = dict[str, ToolCall](), conversation.messages
    for message in messages[_turn_start(messages) or 0 :]:
        if isinstance(message, Assistant):
            calls |= {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            if output.status != "done" or output.call_id not in calls:
                continue
            call = as_run(calls[output.call_id], output)
            command = str(call.arguments.get("command", ""))
            if call.name in _CHANGERS or (call.name == "bash" and not _LOOKS.match(command)):
                yield call
