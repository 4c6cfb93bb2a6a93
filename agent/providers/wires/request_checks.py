"""What no model server takes, told from a request before any wire has written it down. Pure.

A scripted model refuses it, too: a session that runs on a script would run with a real model.
"""

from collections import Counter
from hashlib import sha256

from agent.messages import Assistant, Native, Reasoning
from agent.providers.base import Request


def refusal(request: Request, model: str) -> str | None:
    """Why a server would not take the request of a session with `model`, or None."""
    if not request.messages or not any(message.parts for message in request.messages):
        return "the request holds no messages"
    names = Counter(tool.name for tool in request.tools)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        return f"the tool `{twice[0]}` is defined twice"
    if request.max_output_tokens < 1:
        return "the reply would have no room"
    waiting: list[str] = []
    for message in request.messages:
        if isinstance(message, Assistant):
            if waiting:
                return f"the call `{waiting[0]}` has no output"
            waiting = [call.id for call in message.calls]
            if message.model == model and not all(map(_is_signed, message.parts)):
                return "a thought is not as the model has said it"
        else:
            answered = [output.call_id for output in message.outputs]
            if Counter(answered) != Counter(waiting):
                return f"outputs of {answered} stand behind calls of {waiting}"
            waiting = []
    return f"the call `{waiting[0]}` has no output" if waiting else None


def signed(text: str) -> Native:
    """A thought as a scripted model sends it: a changed text does not fit its signature any more, in any process."""
    return {"type": "reasoning", "text": text, "signature": _signature(text)}


def _is_signed(part: object) -> bool:
    if not isinstance(part, Reasoning):
        return True
    text = part.native.get("text")
    return isinstance(text, str) and text == part.text and part.native.get("signature") == _signature(text)


def _signature(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
