"""Runs the turns of a headless run: sends messages, passes events to the output and counts the results."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from ebbtide.agent.errors import SchemaNotMet
from ebbtide.agent.events.session import Event
from ebbtide.agent.headless.answer_schema import read_answer, schema_request
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper
from ebbtide.agent.messages import Image, Note, User
from ebbtide.agent.session import Session
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of one session."""

    session: Session
    outcome: RunOutcome
    show: Callable[[Event], None]
    stop: RunStopper
    schema: Mapping[str, object] | None = None
    """JSON Schema that each answer must match."""

    async def answer(
        self,
        prompt: str,
        beside: Sequence[Image | Note] = (),
        pending_messages: Callable[[], Sequence[User]] = tuple,
    ) -> None:
        """Run a turn, and a second one if the answer does not match the schema. `pending_messages` as in
        `Session.send`. Raises `SchemaNotMet`."""
        before, limit = self.outcome.steps, self.session.limits.steps
        if self.schema is None:
            await self.follow(self.session.send(prompt, beside, None, pending_messages))
            return
        wanted = f"{prompt}\n\n{schema_request(self.schema)}"
        await self.follow(self.session.send(wanted, beside, None, pending_messages))
        problems = self._problems(self.schema)
        left = limit and limit - (self.outcome.steps - before)
        if problems and left != 0 and not self.stop.wish.is_requested():
            again = (
                f"Your answer does not match the JSON Schema: {'; '.join(problems)}. Answer again, with the JSON alone."
            )
            await self.follow(self.session.send(again, (), left, pending_messages))
            problems = self._problems(self.schema)
        if problems and self.stop.wish.is_requested():
            self.outcome.mark_interrupted()
        elif problems:
            raise SchemaNotMet(f"the answer does not match the schema: {'; '.join(problems)}")

    def _problems(self, schema: Mapping[str, object]) -> list[str]:
        """Return why the answer does not match the schema, and replace an answer that does with its bare JSON text.
        Empty if there is no answer to check."""
        if self.outcome.stop_reason not in ("answered", "denied"):
            return []
        text, problems = read_answer(self.outcome.result, schema)
        if not problems:
            self.outcome.result, self.outcome.is_json = text, True
        return problems

    async def follow(self, turn: AsyncGenerator[Event, None]) -> None:
        """Count and show the events of a turn."""
        async with aclosing(turn) as events:
            async for event in events:
                self.outcome.take(event)
                self.show(event)
