"""Handles requests of MCP servers: questions to the user through the session, and sampling with the session's model
after the user's approval. Starts no server."""

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
YES, OPENED_ANSWER = "yes", "I have opened it"
MAX_FORM_ANSWERS = 200
"""Maximum number of answers to one form."""
MAX_FIELD_ATTEMPTS = 5
"""Maximum number of invalid answers to a field before the form is dismissed."""
MAX_SHOWN_CHARS = 4000
"""Maximum length of a sampling request as shown to the user, in characters."""


class ServerRequests(ClientHandlers):
    """Requests outside a turn, or without a user, are not answered."""

    def __init__(self, root: Path, channel: Channel, changed: Callable[[str], None]) -> None:
        """`changed` is called with a server's name after each of its changes."""
        self.env: SessionContext | None = None
        """The session's context; None before servers are started and after they are closed."""
        self.shows_login: dict[str, Callable[[str], None]] = {}
        """Callbacks that show a login address, by server name."""
        self._root = root
        self._channel = channel
        self._changed = changed
        self.services = frozenset(("elicitation", "sampling", "roots") if channel.is_interactive else ("roots",))
        self._trusted: set[str] = set()
        """Servers that may use the model without asking."""
        self._turn = asyncio.Lock()

    async def answer(self, question: str, options: tuple[str, ...], *, takes_words: bool = False) -> str:
        """The user's answer; empty if there is none, for example between turns."""
        if not self._channel.is_interactive or not self._channel.is_open:
            return ""
        asked = self._channel.questions.ask_text(question, options, is_lasting=True, takes_words=takes_words)
        return await self._channel.interrupt.race(asked) or ""

    def roots(self) -> tuple[Path, ...]:
        return (self._root,)

    def notify_change(self, server: str) -> None:
        self._changed(server)

    async def open_login(self, server: str, url: str) -> None:
        """Pass the address to the callback that requested the login; ignored without one."""
        if (show := self.shows_login.get(server)) is not None:
            show(url)

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> Answer:
        """Present a form to the user, or ask to open an address."""
        async with self._turn:  # questions of two forms must not interleave
            return await (self._ask_to_open(server, message, url) if url else self._filled_in(server, message, schema))

    async def sample(self, server: str, request: SampleRequest) -> Sample | SamplingRefusal:
        """Let the session's model answer a sampling request, if the user allows it."""
        if (env := self.env) is None:
            return SamplingRefusal("no session is open")
        async with self._turn:
            if server not in self._trusted:
                question = (
                    f"The server `{server}` wants `{env.provider.facts.id}` to generate text at your expense: about "
                    f"{size_of(request):,} tokens in, and at most {request.most_tokens:,} out. Allow it?\n\n"
                )
                answer = await self.answer(question + sample_text(request), (NO, ONCE, ALWAYS))
                if answer not in (ONCE, ALWAYS):
                    return SamplingRefusal("the user declined")
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
        """The user's value; None if left out."""
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
                problem = f"Invalid: {error}.\n"
        return DismissedAnswer()


def _host(url: str) -> str:
    """The real host of an address, which text before an `@` could disguise."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return "an invalid host"


async def write_sample(request: SampleRequest, env: SessionContext) -> Sample | SamplingRefusal:
    """Answer a sampling request with the session's model, at the user's expense. Return the reason if it is refused."""
    provider, messages = env.provider, _messages(request, images=env.provider.facts.images)
    if env.limits.cost is not None and env.cost_so_far >= env.limits.cost:
        return SamplingRefusal("the cost limit of this run is reached")
    if not messages or not isinstance(messages[-1], User):
        return SamplingRefusal("there is no user message to answer")
    size = size_of(request)
    if size > provider.window.effective:
        return SamplingRefusal(
            f"it needs about {size:,} tokens, but the model has room for {provider.window.effective:,}"
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
    """Estimated tokens of a sampling request."""
    return estimate_text(request.system) + sum(map(estimate_message, _messages(request, images=True)))


def sample_text(request: SampleRequest) -> str:
    """The text of a sampling request, for the user."""
    texts = [f"[system] {request.system}"] if request.system else []
    for said in request.messages:
        pictures = f" [{pluralize(len(said.pictures), 'picture')}]" if said.pictures else ""
        texts.append(f"[{said.role}] {said.text}{pictures}")
    whole = "\n".join(texts)
    more = len(whole) - MAX_SHOWN_CHARS
    return whole if more <= 0 else f"{whole[:MAX_SHOWN_CHARS]}\n… and {more:,} characters more"


def _messages(request: SampleRequest, *, images: bool) -> tuple[Message, ...]:
    """Merge consecutive messages of the same role, starting with the first user message."""
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
    """Forward only the cost of a sample and retries."""

    def tell(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            emit(replace(event, purpose="sampling"))
        elif isinstance(event, RetryScheduled):
            emit(event)

    return tell
