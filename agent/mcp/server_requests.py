"""Where the servers of a session turn to: the user, through the session's own questions, and its model, once the user
has said so. It starts no server."""

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from ebbtide.agent.channel import Channel
from ebbtide.agent.context.estimate import estimate_message, estimate_text
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event, ReplyFinished, RetryScheduled
from ebbtide.agent.mcp.elicitation import DECLINE, LEAVE_OUT, SEND, FormField, fields_of, form_of
from ebbtide.agent.messages import Assistant, Image, Message, Text, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.mcp.client_handlers import (
    AcceptedAnswer,
    Answer,
    ClientHandlers,
    DeclinedAnswer,
    DismissedAnswer,
    FieldValue,
    Sample,
    SampleRequest,
    SamplingMessage,
    SamplingRefusal,
)
from ebbtide.tools.outputs.extent import pluralize

ONCE, ALWAYS, NO = "this once", "always, for this server in this session", "no"
YES, OPENED_ANSWER = "yes", "I have done so"
MAX_FORM_ANSWERS = 200
"""Answers to one form."""
MAX_FIELD_ATTEMPTS = 5
"""Answers to one field that are read before the whole form counts as not answered."""
MAX_SHOWN_CHARS = 4000
"""Characters of a request to the model that the user is shown."""


class ServerRequests(ClientHandlers):
    """What a server asks while nobody is there, or between two turns, is not answered."""

    def __init__(self, root: Path, channel: Channel, changed: Callable[[str], None]) -> None:
        """`notify_change` is told of every change of a server, by its name."""
        self.env: SessionContext | None = None
        """What the session is made of; None until servers are started, and when they are closed."""
        self.shows_login: dict[str, Callable[[str], None]] = {}
        """Who is to be shown where to log in to a server, by its name."""
        self._root = root
        self._channel = channel
        self._changed = changed
        self.services = frozenset(("elicitation", "sampling", "roots") if channel.is_interactive else ("roots",))
        self._trusted: set[str] = set()
        """Servers for which the model may write without a question."""
        self._turn = asyncio.Lock()

    async def answer(self, question: str, options: tuple[str, ...], *, takes_words: bool = False) -> str:
        """The user's answer; empty when there is none, as between two turns."""
        if not self._channel.is_interactive or not self._channel.is_open:
            return ""
        asked = self._channel.questions.ask_text(question, options, is_lasting=True, takes_words=takes_words)
        return await self._channel.interrupt.race(asked) or ""

    def roots(self) -> tuple[Path, ...]:
        return (self._root,)

    def notify_change(self, server: str) -> None:
        self._changed(server)

    async def open_login(self, server: str, url: str) -> None:
        """Shown to whoever has asked for the login; nobody else is sent anywhere."""
        if (show := self.shows_login.get(server)) is not None:
            show(url)

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> Answer:
        """Puts a form to the user, or asks to open an address."""
        async with self._turn:  # questions of two forms must not come in between each other
            return await (self._ask_to_open(server, message, url) if url else self._filled_in(server, message, schema))

    async def sample(self, server: str, request: SampleRequest) -> Sample | SamplingRefusal:
        """Has the session's model write, once the user has allowed it."""
        if (env := self.env) is None:
            return SamplingRefusal("no session is open")
        async with self._turn:
            if server not in self._trusted:
                question = (
                    f"The server `{server}` wants `{env.provider.facts.id}` to write something for it, which you pay "
                    f"for: about {size_of(request):,} tokens, and at most {request.most_tokens:,} back. Allow it?\n\n"
                )
                answer = await self.answer(question + sample_text(request), (NO, ONCE, ALWAYS))
                if answer not in (ONCE, ALWAYS):
                    return SamplingRefusal("the user does not want that")
                if answer == ALWAYS:
                    self._trusted.add(server)
        return await write_sample(request, env)

    async def _ask_to_open(self, server: str, message: str, url: str) -> Answer:
        question = (
            f"The server `{server}` asks you to open an address at `{_host(url)}`: {message}\n\n{url}\n\n"
            "Open it only if you trust it."
        )
        match await self.answer(question, (DECLINE, OPENED_ANSWER)):
            case "":
                return DismissedAnswer()
            case answer if answer == OPENED_ANSWER:
                return AcceptedAnswer({})
            case _:
                return DeclinedAnswer()

    async def _filled_in(self, server: str, message: str, schema: Mapping[str, object]) -> Answer:
        said = f"The server `{server}` asks: {message}"
        try:
            fields = fields_of(schema)
        except ValueError as error:
            self._channel.notice(f"a question of the server `{server}` was declined: {error}")
            return DeclinedAnswer()
        if not fields:
            answer = await self.answer(said, (YES, DECLINE))
            return AcceptedAnswer({}) if answer == YES else DeclinedAnswer() if answer else DismissedAnswer()
        form = form_of(fields)
        if len(fields) == 1:
            found = await self._field(said, fields[0])
            return (
                found
                if isinstance(found, DeclinedAnswer | DismissedAnswer)
                else AcceptedAnswer(form.with_value(fields[0], found).values)
            )
        for _ in range(MAX_FORM_ANSWERS):
            answer = await self.answer(f"{said}\n\n{form.question()}", form.options, takes_words=True)
            if not answer or answer == DECLINE:
                return DeclinedAnswer() if answer else DismissedAnswer()
            if answer == SEND:
                return AcceptedAnswer(form.values)
            field = form.field_for(answer)
            found = await self._field(said, field) if field is not None else None
            if isinstance(found, DeclinedAnswer | DismissedAnswer):
                return found
            form = form.with_value(field, found) if field is not None else form.with_assignments(answer)
        return DismissedAnswer()

    async def _field(self, said: str, field: FormField) -> FieldValue | DeclinedAnswer | DismissedAnswer:
        """The user's value; None when it is left out."""
        problem = ""
        for _ in range(MAX_FIELD_ATTEMPTS):
            answer = await self.answer(f"{said}\n\n{problem}{field.question()}", field.options, takes_words=True)
            if not answer:
                return DismissedAnswer()
            if answer == DECLINE:
                return DeclinedAnswer()
            if answer == LEAVE_OUT and not field.required:
                return None
            try:
                return field.value(answer)
            except ValueError as error:
                problem = f"That cannot be: {error}.\n"
        return DismissedAnswer()


def _host(url: str) -> str:
    """Where an address leads, which what stands in front of an `@` can hide."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return "no host at all"


async def write_sample(request: SampleRequest, env: SessionContext) -> Sample | SamplingRefusal:
    """What the session's model writes, at the user's expense. It says why not when it is not asked."""
    provider, messages = env.provider, _messages(request, images=env.provider.facts.images)
    if env.limits.cost is not None and env.cost_so_far >= env.limits.cost:
        return SamplingRefusal("the limit of what this run may cost is reached")
    if not messages or not isinstance(messages[-1], User):
        return SamplingRefusal("there is no message of the user to answer")
    size = size_of(request)
    if size > provider.window.effective:
        return SamplingRefusal(
            f"it takes about {size:,} tokens, and the model has room for {provider.window.effective:,}"
        )
    most = max(1, min(request.most_tokens, provider.window.output))
    asked = Request(request.system, messages, (), most, f"{env.recorder.session}-sample", env.effort)
    try:
        reply = await stream_reply(provider, asked, env.interrupt, _quietly(env.emit))
    except AgentError as error:
        return SamplingRefusal(str(error))
    if reply.stop_reason == "interrupted" or env.interrupt.is_requested():
        return SamplingRefusal("the user interrupted it")
    text, was_stopped = _until(reply.message.text, request.stop)
    if was_stopped:
        return Sample(text, provider.facts.name, "stopSequence")
    return Sample(text, provider.facts.name, "maxTokens" if reply.stop_reason == "max_tokens" else "endTurn")


def size_of(request: SampleRequest) -> int:
    """Estimated tokens of what the model would be sent."""
    return estimate_text(request.system) + sum(map(estimate_message, _messages(request, images=True)))


def sample_text(request: SampleRequest) -> str:
    """What the model would be sent, for the user to judge."""
    texts = [f"[system] {request.system}"] if request.system else []
    for said in request.messages:
        pictures = f" [{pluralize(len(said.pictures), 'picture')}]" if said.pictures else ""
        texts.append(f"[{said.role}] {said.text}{pictures}")
    whole = "\n".join(texts)
    more = len(whole) - MAX_SHOWN_CHARS
    return whole if more <= 0 else f"{whole[:MAX_SHOWN_CHARS]}\n… and {more:,} characters more"


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
        f"\n[{pluralize(len(said.pictures), 'picture')}, which this model cannot see]"
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
