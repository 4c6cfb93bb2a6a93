"""Runs the turns of a headless run: sends messages, prints the events and updates the outcome."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from ebbtide.agent.errors import SchemaNotMet
from ebbtide.agent.events.session import Event
from ebbtide.agent.headless.answers import parse_answer, schema_instruction
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper
from ebbtide.agent.messages import Image, Note, User
from ebbtide.agent.session import Session
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class HeadlessTurns:
    """The turns of one session."""

    session: Session
    outcome: RunOutcome
    show: Callable[[Event], None]
    stopper: RunStopper
    schema: Mapping[str, object] | None = None
    """JSON Schema that each answer must match."""

    async def run_turn(
        self,
        prompt: str,
        attachments: Sequence[Image | Note] = (),
        take_steering_messages: Callable[[], Sequence[User]] = tuple,
    ) -> None:
        """Run a turn, and a second one if the answer does not match the schema. `take_steering_messages`: as in
        `Session.send`. Raises `SchemaNotMet`."""
        previous_steps, max_steps = self.outcome.steps, self.session.limits.max_steps
        if self.schema is None:
            await self.process_events(self.session.send(prompt, attachments, None, take_steering_messages))
            return
        prompt_with_schema = f"{prompt}\n\n{schema_instruction(self.schema)}"
        await self.process_events(self.session.send(prompt_with_schema, attachments, None, take_steering_messages))
        problems = self._check_answer(self.schema)
        remaining_steps = max_steps and max_steps - (self.outcome.steps - previous_steps)
        if problems and remaining_steps != 0 and not self.stopper.interrupt.is_requested():
            retry_prompt = (
                f"Your answer does not match the JSON Schema: {'; '.join(problems)}. Answer again, with the JSON alone."
            )
            await self.process_events(self.session.send(retry_prompt, (), remaining_steps, take_steering_messages))
            problems = self._check_answer(self.schema)
        if problems and self.stopper.interrupt.is_requested():
            self.outcome.mark_interrupted()
        elif problems:
            raise SchemaNotMet(f"the answer does not match the schema: {'; '.join(problems)}")

    def _check_answer(self, schema: Mapping[str, object]) -> list[str]:
        """Check the answer and return the reasons why it does not match the schema. A matching answer is replaced with
        its bare JSON text. A missing answer is not checked."""
        if self.outcome.stop_reason not in ("answered", "denied"):
            return []
        text, problems = parse_answer(self.outcome.result, schema)
        if not problems:
            self.outcome.result, self.outcome.is_json = text, True
        return problems

    async def process_events(self, turn: AsyncGenerator[Event, None]) -> None:
        """Record and print the events of a turn."""
        async with aclosing(turn) as events:
            async for event in events:
                self.outcome.record_event(event)
                self.show(event)
