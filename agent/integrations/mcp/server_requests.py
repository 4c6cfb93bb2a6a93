"""Handles requests from MCP servers: questions to the user through the session, and sampling with the session's model
after the user's approval."""

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from ebbtide.agent.channel import Channel
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event, ReplyFinished, RetryScheduled
from ebbtide.agent.integrations.mcp.elicitation import (
    DECLINE_OPTION,
    SEND_OPTION,
    SKIP_FIELD,
    FormField,
    parse_fields,
    prefilled_form,
)
from ebbtide.agent.messages import Assistant, Image, Message, Text, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.tokens.estimate import estimate_message, estimate_text
from ebbtide.agent.window.session_context import ModelContext, TurnContext, WindowContext
from ebbtide.tools.integrations.mcp.client_handlers import (
    AcceptedAnswer,
    ClientHandlers,
    DeclinedAnswer,
    DismissedAnswer,
    ElicitationAnswer,
    FieldValue,
    SamplingMessage,
    SamplingRefusal,
    SamplingReply,
    SamplingRequest,
)
from ebbtide.tools.outputs.extent import pluralize

ONCE_ANSWER, ALWAYS_ANSWER, NO_ANSWER = "this once", "always, for this server in this session", "no"
YES_ANSWER, OPENED_ANSWER = "yes", "I have opened it"
MAX_FORM_ANSWERS = 200
"""Maximum number of answers to one form."""
MAX_FIELD_ATTEMPTS = 5
"""Maximum number of invalid answers for a field; after that, the form is dismissed."""
MAX_SAMPLE_CHARS = 4000
"""Maximum length of a sampling request as shown to the user, in characters."""


class ServerRequests(ClientHandlers):
    """Answers requests from servers. Between turns, or without a user, questions are dismissed."""

    def __init__(self, root: Path, channel: Channel, on_change: Callable[[str], None]) -> None:
        """`on_change` is called with a server's name whenever the server changes."""
        self.session_contexts: tuple[WindowContext, TurnContext] | None = None
        """The session whose model answers sampling requests; None before servers are started and after they are
        closed."""
        self.login_callbacks: dict[str, Callable[[str], None]] = {}
        """Callbacks that show a login address, by server name."""
        self._root = root
        self._channel = channel
        self._on_change = on_change
        self.services = frozenset(("elicitation", "sampling", "roots") if channel.is_interactive else ("roots",))
        self._sampling_servers: set[str] = set()
        """Servers that may use the model without asking."""
        self._question_lock = asyncio.Lock()

    async def ask_user(self, question: str, options: tuple[str, ...], *, accepts_free_text: bool = False) -> str:
        """Return the user's answer; empty if there is none, for example between turns."""
        if not self._channel.is_interactive or not self._channel.can_ask:
            return ""
        pending_answer = self._channel.questions.ask_text(
            question, options, is_lasting=True, accepts_text=accepts_free_text
        )
        return await self._channel.interrupt.race(pending_answer) or ""

    def roots(self) -> tuple[Path, ...]:
        return (self._root,)

    def notify_change(self, server: str) -> None:
        self._on_change(server)

    async def show_login(self, server: str, url: str) -> None:
        """Pass a login address to the callback that is waiting for it, if any."""
        if (show := self.login_callbacks.get(server)) is not None:
            show(url)

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> ElicitationAnswer:
        """Present a form to the user, or ask the user to open an address."""
        async with self._question_lock:  # the questions of two forms must not be mixed
            return await (self._ask_to_open(server, message, url) if url else self._ask_form(server, message, schema))

    async def sample(self, server: str, request: SamplingRequest) -> SamplingReply | SamplingRefusal:
        """Let the session's model answer a sampling request, if the user allows it."""
        if self.session_contexts is None:
            return SamplingRefusal("no session is open")
        window, turn = self.session_contexts
        async with self._question_lock:
            if server not in self._sampling_servers:
                question = (
                    f"The server `{server}` wants `{window.model.facts.id}` to generate text at your expense: about "
                    f"{estimate_request_tokens(request):,} tokens in, and at most {request.max_tokens:,} out. "
                    "Allow it?\n\n"
                )
                answer = await self.ask_user(
                    question + format_request(request), (NO_ANSWER, ONCE_ANSWER, ALWAYS_ANSWER)
                )
                if answer not in (ONCE_ANSWER, ALWAYS_ANSWER):
                    return SamplingRefusal("the user declined")
                if answer == ALWAYS_ANSWER:
                    self._sampling_servers.add(server)
        return await generate_sample(request, window.model, turn)

    async def _ask_to_open(self, server: str, message: str, url: str) -> ElicitationAnswer:
        question = (
            f"The server `{server}` asks you to open an address at `{_host(url)}`: {message}\n\n{url}\n\n"
            "Open it only if you trust it."
        )
        match await self.ask_user(question, (DECLINE_OPTION, OPENED_ANSWER)):
            case "":
                return DismissedAnswer()
            case answer if answer == OPENED_ANSWER:
                return AcceptedAnswer({})
            case _:
                return DeclinedAnswer()

    async def _ask_form(self, server: str, message: str, schema: Mapping[str, object]) -> ElicitationAnswer:
        prompt = f"The server `{server}` asks: {message}"
        try:
            fields = parse_fields(schema)
        except ValueError as error:
            self._channel.show_notice(f"a question of the server `{server}` was declined: {error}")
            return DeclinedAnswer()
        if not fields:
            answer = await self.ask_user(prompt, (YES_ANSWER, DECLINE_OPTION))
            return AcceptedAnswer({}) if answer == YES_ANSWER else DeclinedAnswer() if answer else DismissedAnswer()
        form = prefilled_form(fields)
        if len(fields) == 1:
            value = await self._ask_field(prompt, fields[0])
            return (
                value
                if isinstance(value, DeclinedAnswer | DismissedAnswer)
                else AcceptedAnswer(form.with_value(fields[0], value).values)
            )
        for _ in range(MAX_FORM_ANSWERS):
            answer = await self.ask_user(f"{prompt}\n\n{form.build_question()}", form.options, accepts_free_text=True)
            if not answer or answer == DECLINE_OPTION:
                return DeclinedAnswer() if answer else DismissedAnswer()
            if answer == SEND_OPTION:
                return AcceptedAnswer(form.values)
            field = form.field_for(answer)
            value = await self._ask_field(prompt, field) if field is not None else None
            if isinstance(value, DeclinedAnswer | DismissedAnswer):
                return value
            form = form.with_value(field, value) if field is not None else form.with_assignments(answer)
        return DismissedAnswer()

    async def _ask_field(self, prompt: str, field: FormField) -> FieldValue | DeclinedAnswer | DismissedAnswer:
        """Return the user's value for a field; None if the user omits it."""
        problem = ""
        for _ in range(MAX_FIELD_ATTEMPTS):
            answer = await self.ask_user(
                f"{prompt}\n\n{problem}{field.build_question()}", field.options, accepts_free_text=True
            )
            if not answer:
                return DismissedAnswer()
            if answer == DECLINE_OPTION:
                return DeclinedAnswer()
            if answer == SKIP_FIELD and not field.is_required:
                return None
            try:
                return field.parse_value(answer)
            except ValueError as error:
                problem = f"Invalid: {error}.\n"
        return DismissedAnswer()


def _host(url: str) -> str:
    """Return the real host of a URL. Text before an `@` could disguise it."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return "an invalid host"


async def generate_sample(
    request: SamplingRequest, model: ModelContext, turn: TurnContext
) -> SamplingReply | SamplingRefusal:
    """Answer a sampling request with the session's model, at the user's expense; return a `SamplingRefusal` if that is
    not possible."""
    provider, messages = model.provider, _model_messages(request, supports_images=model.facts.images)
    if turn.limits.max_cost is not None and turn.cost_so_far >= turn.limits.max_cost:
        return SamplingRefusal("the cost limit of this run is reached")
    if not messages or not isinstance(messages[-1], User):
        return SamplingRefusal("there is no user message to answer")
    token_count = estimate_request_tokens(request)
    if token_count > provider.window.available_tokens:
        return SamplingRefusal(
            f"it needs about {token_count:,} tokens, but the model has room for {provider.window.available_tokens:,}"
        )
    max_output_tokens = max(1, min(request.max_tokens, provider.window.output))
    model_request = Request(
        request.system_prompt, messages, (), max_output_tokens, f"{turn.recorder.session_id}-sample", model.effort
    )
    try:
        reply = await stream_reply(provider, model_request, turn.interrupt, _create_event_filter(turn.emit))
    except AgentError as error:
        return SamplingRefusal(str(error))
    if reply.stop_reason == "interrupted" or turn.interrupt.is_requested():
        return SamplingRefusal("the user interrupted it")
    text, was_stopped = _text_before_stop(reply.message.text, request.stop_sequences)
    if was_stopped:
        return SamplingReply(text, provider.facts.name, "stopSequence")
    return SamplingReply(text, provider.facts.name, "maxTokens" if reply.stop_reason == "max_tokens" else "endTurn")


def estimate_request_tokens(request: SamplingRequest) -> int:
    """Return the estimated tokens of a sampling request."""
    return estimate_text(request.system_prompt) + sum(
        map(estimate_message, _model_messages(request, supports_images=True))
    )


def format_request(request: SamplingRequest) -> str:
    """Return the text of a sampling request for the user, truncated if it is long."""
    texts = [f"[system] {request.system_prompt}"] if request.system_prompt else []
    for message in request.messages:
        images_note = f" [{pluralize(len(message.images), 'image')}]" if message.images else ""
        texts.append(f"[{message.role}] {message.text}{images_note}")
    full_text = "\n".join(texts)
    hidden_chars = len(full_text) - MAX_SAMPLE_CHARS
    return full_text if hidden_chars <= 0 else f"{full_text[:MAX_SAMPLE_CHARS]}\n… and {hidden_chars:,} more characters"


def _model_messages(request: SamplingRequest, *, supports_images: bool) -> tuple[Message, ...]:
    """Return the request's messages, starting with the first user message. Consecutive messages of the same role are
    merged."""
    merged_messages: list[SamplingMessage] = []
    for message in request.messages:
        if merged_messages and merged_messages[-1].role == message.role:
            previous = merged_messages.pop()
            message = SamplingMessage(
                message.role, f"{previous.text}\n\n{message.text}", (*previous.images, *message.images)
            )
        if merged_messages or message.role == "user":
            merged_messages.append(message)
    return tuple(_model_message(message, supports_images) for message in merged_messages)


def _model_message(message: SamplingMessage, supports_images: bool) -> Message:
    if message.role == "assistant":
        return Assistant((Text(message.text),), "")
    omission_note = (
        f"\n[{pluralize(len(message.images), 'image')}, which this model cannot see]"
        if message.images and not supports_images
        else ""
    )
    image_parts = tuple(
        Image(image.media_type, base64.b64encode(image.data).decode("ascii")) for image in message.images
    )
    return User((Text(f"{message.text}{omission_note}"), *(image_parts if supports_images else ())))


def _text_before_stop(text: str, stop_sequences: tuple[str, ...]) -> tuple[str, bool]:
    offsets = [offset for stop in stop_sequences if stop and (offset := text.find(stop)) >= 0]
    return (text[: min(offsets)], True) if offsets else (text, False)


def _create_event_filter(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """Wrap a callback so that it receives only retries and the cost of a sampling request."""

    def forward(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            emit(replace(event, purpose="sampling"))
        elif isinstance(event, RetryScheduled):
            emit(event)

    return forward
