"""What a server wants a model to write: asked of the session's own model, once the user has said so."""

import base64
from collections.abc import Callable
from dataclasses import replace

from agent.context.estimate import estimate_message, estimate_text
from agent.errors import AgentError
from agent.events import Event, ReplyFinished, RetryScheduled
from agent.messages import Assistant, Image, Message, Text, User
from agent.providers.base import Request
from agent.providers.stream import stream_reply
from agent.window.env import Env
from tools.extent import counted
from tools.mcp.client_handlers import Sample, SampleRequest, SamplingMessage, SamplingRefused

SHOWN = 4000
"""Characters of a request that the user is shown."""


async def write_sample(request: SampleRequest, env: Env) -> Sample | SamplingRefused:
    """What the session's model writes, at the user's expense. It says why not when it is not asked."""
    provider, messages = env.provider, _messages(request, images=env.provider.facts.images)
    if env.limits.cost is not None and env.spent >= env.limits.cost:
        return SamplingRefused("the limit of what this run may cost is reached")
    if not messages or not isinstance(messages[-1], User):
        return SamplingRefused("there is no message of the user to answer")
    size = size_of(request)
    if size > provider.window.effective:
        return SamplingRefused(
            f"it takes about {size:,} tokens, and the model has room for {provider.window.effective:,}"
        )
    most = max(1, min(request.most_tokens, provider.window.output))
    asked = Request(request.system, messages, (), most, f"{env.recorder.session}-sample", env.effort)
    try:
        reply = await stream_reply(provider, asked, env.interrupt, _quietly(env.emit))
    except AgentError as error:
        return SamplingRefused(str(error))
    if reply.stop_reason == "interrupted" or env.interrupt.requested():
        return SamplingRefused("the user interrupted it")
    text, was_stopped = _until(reply.message.text, request.stop)
    if was_stopped:
        return Sample(text, provider.facts.name, "stopSequence")
    return Sample(text, provider.facts.name, "maxTokens" if reply.stop_reason == "max_tokens" else "endTurn")


def size_of(request: SampleRequest) -> int:
    """Estimated tokens of what the model would be sent."""
    return estimate_text(request.system) + sum(map(estimate_message, _messages(request, images=True)))


def shown(request: SampleRequest) -> str:
    """What the model would be sent, for the user to judge."""
    texts = [f"[system] {request.system}"] if request.system else []
    for said in request.messages:
        pictures = f" [{counted(len(said.pictures), 'picture')}]" if said.pictures else ""
        texts.append(f"[{said.role}] {said.text}{pictures}")
    whole = "\n".join(texts)
    more = len(whole) - SHOWN
    return whole if more <= 0 else f"{whole[:SHOWN]}\n… and {more:,} characters more"


def _messages(request: SampleRequest, *, images: bool) -> tuple[Message, ...]:
    """The messages in turns: neighbours of one role as one, from the first of the user on."""
    joined: list[SamplingMessage] = []
    for said in request.messages:
        if joined and joined[-1].role == said.role:
            before = joined.pop()
            said = SamplingMessage(said.role, f"{before.text}\n\n{said.text}", (*before.pictures, *said.pictures))
        if joined or said.role == "user":
            joined.append(said)
    return tuple(_message(said, images) for said in joined)


def _message(said: SamplingMessage, images: bool) -> Message:
    if said.role == "assistant":
        return Assistant((Text(said.text),), "")
    left_out = (
        f"\n[{counted(len(said.pictures), 'picture')}, which this model cannot see]"
        if said.pictures and not images
        else ""
    )
    pictures = tuple(Image(p.media_type, base64.b64encode(p.data).decode("ascii")) for p in said.pictures)
    return User((Text(f"{said.text}{left_out}"), *(pictures if images else ())))


def _until(text: str, stops: tuple[str, ...]) -> tuple[str, bool]:
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return (text[: min(places)], True) if places else (text, False)


def _quietly(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """Tells of a sample only what it cost, and that it takes longer."""

    def tell(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            emit(replace(event, purpose="sampling"))
        elif isinstance(event, RetryScheduled):
            emit(event)

    return tell
