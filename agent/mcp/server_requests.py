"""Where the servers of a session turn to: the user, through the session's own questions, and its model. It starts no
server."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.channel import Channel
from agent.events import Noticed
from agent.mcp.elicitation import DECLINE, LEAVE_OUT, FormField, fields_of
from agent.mcp.sampling import shown, size_of, write_sample
from agent.window.env import Env
from tools.mcp.client_handlers import (
    Accepted,
    Answer,
    ClientHandlers,
    Declined,
    Dismissed,
    Sample,
    SampleRequest,
    SamplingRefused,
    Value,
)

ONCE, ALWAYS, NO = "this once", "always, for this server in this session", "no"
YES, OPENED = "yes", "I have done so"
MOST_ATTEMPTS = 5
"""Answers to one field that are read before the whole form counts as not answered."""


@dataclass(frozen=True, slots=True)
class AttendedSession:
    """The session that servers are heard in."""

    env: Env
    channel: Channel

    async def answer(self, question: str, options: tuple[str, ...]) -> str:
        """The user's answer; empty when there is none, as between two turns."""
        if not self.channel.is_interactive or not self.channel.is_open:
            return ""
        return await self.channel.interrupt.race(self.channel.questions.words(question, options)) or ""


class ServerRequests(ClientHandlers):
    """What a server asks while nobody is there, or between two turns, is not answered."""

    def __init__(self, root: Path, changed: Callable[[str], None], *, interactive: bool) -> None:
        """`changed` is told of every change of a server, by its name."""
        self.hearing: AttendedSession | None = None
        """None until servers are started, and when they are closed."""
        self.shows_login: dict[str, Callable[[str], None]] = {}
        """Who is to be shown where to log in to a server, by its name."""
        self._root = root
        self._changed = changed
        self.services = frozenset(("elicitation", "sampling", "roots")) if interactive else frozenset(("roots",))
        self._trusted: set[str] = set()
        """Servers for which the model may write without a question."""
        self._turn = asyncio.Lock()

    def roots(self) -> tuple[Path, ...]:
        return (self._root,)

    def changed(self, server: str) -> None:
        self._changed(server)

    async def open_login(self, server: str, url: str) -> None:
        """Shown to whoever has asked for the login; nobody else is sent anywhere."""
        if (show := self.shows_login.get(server)) is not None:
            show(url)

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> Answer:
        """Puts the fields of a form to the user one by one, or asks to open an address."""
        if self.hearing is None:
            return Dismissed()
        async with self._turn:  # questions of two forms must not come in between each other
            if url:
                return await self._opened(self.hearing, server, message, url)
            return await self._filled_in(self.hearing, server, message, schema)

    async def sample(self, server: str, request: SampleRequest) -> Sample | SamplingRefused:
        """Has the session's model write, once the user has allowed it."""
        if self.hearing is None:
            return SamplingRefused("no session is open")
        env = self.hearing.env
        async with self._turn:
            if server not in self._trusted:
                question = (
                    f"The server `{server}` wants `{env.provider.facts.id}` to write something for it, which you pay "
                    f"for: about {size_of(request):,} tokens, and at most {request.most_tokens:,} back. Allow it?\n\n"
                )
                answer = await self.hearing.answer(question + shown(request), (NO, ONCE, ALWAYS))
                if answer not in (ONCE, ALWAYS):
                    return SamplingRefused("the user does not want that")
                if answer == ALWAYS:
                    self._trusted.add(server)
        return await write_sample(request, env)

    async def _opened(self, hearing: AttendedSession, server: str, message: str, url: str) -> Answer:
        question = (
            f"The server `{server}` asks you to open an address: {message}\n\n{url}\n\nOpen it only if you trust it."
        )
        match await hearing.answer(question, (DECLINE, OPENED)):
            case "":
                return Dismissed()
            case answer if answer == OPENED:
                return Accepted({})
            case _:
                return Declined()

    async def _filled_in(
        self, hearing: AttendedSession, server: str, message: str, schema: Mapping[str, object]
    ) -> Answer:
        said = f"The server `{server}` asks: {message}"
        try:
            fields = fields_of(schema)
        except ValueError as error:
            hearing.env.emit(Noticed(f"a question of the server `{server}` was declined: {error}"))
            return Declined()
        if not fields:
            answer = await hearing.answer(said, (YES, DECLINE))
            return Accepted({}) if answer == YES else Declined() if answer else Dismissed()
        values = dict[str, Value]()
        for number, field in enumerate(fields, 1):
            place = f" ({number} of {len(fields)})" if len(fields) > 1 else ""
            found = await self._field(hearing, f"The server `{server}` asks{place}: {message}", field)
            if isinstance(found, Declined | Dismissed):
                return found
            if found is not None:
                values[field.name] = found
        return Accepted(values)

    async def _field(self, hearing: AttendedSession, said: str, field: FormField) -> Value | Declined | Dismissed:
        """The user's value; None when it is left out."""
        problem = ""
        for _ in range(MOST_ATTEMPTS):
            answer = await hearing.answer(f"{said}\n\n{problem}{field.question()}", field.options)
            if not answer:
                return Dismissed()
            if answer == DECLINE:
                return Declined()
            if answer == LEAVE_OUT and not field.required:
                return None
            try:
                return field.value(answer)
            except ValueError as error:
                problem = f"That cannot be: {error}.\n"
        return Dismissed()
