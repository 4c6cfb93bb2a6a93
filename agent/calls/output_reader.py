"""Has a model read a long output in pieces and extract what the call was made for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.context.message_text import call_text
from ebbtide.agent.context.offload import readable
from ebbtide.agent.context.summary_cost import SummaryJob
from ebbtide.agent.errors import AgentError, EmptyAnswer, ProviderError
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished, RetryScheduled
from ebbtide.agent.messages import Text, ToolCall, User
from ebbtide.agent.providers.base import Provider, Request
from ebbtide.agent.providers.learned_limits import SummariserSource
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.tools.lazy import dataclass

READER = (
    "You read the output of a tool for a coding agent that cannot see it, and answer what the agent wanted to know."
)
QUESTION = (
    "From this part and what was found before, write down all that bears on the purpose: exact lines, names, numbers, "
    "paths and errors, with line numbers where you can tell them. At most 300 words. Say so when there is nothing."
)
MOST_PIECES = 8
"""Pieces of one output that are read; the rest can be read with `read_result`."""
ANSWER = 1024
"""Longest answer, in tokens."""
RESERVED_TOKENS = 3000
"""Tokens of a request besides the piece, including the answer."""
BYTES_A_TOKEN = 2
MOST_PURPOSE = 2000
"""Characters."""


@dataclass(frozen=True, slots=True)
class OutputReader:
    """Asks the first configured summary model, or else the session's own."""

    provider: Callable[[], Provider]
    session: str
    interrupt: Interrupt
    emit: Callable[[Event], None]
    summarisers: SummariserSource | None = None

    async def __call__(self, call: ToolCall, purpose: str, chunks: Iterator[bytes], size: int) -> str | None:
        """What a model found in the output; None if no model could be asked."""
        try:
            tokens = size // BYTES_A_TOKEN
            provider = await self._reader(SummaryJob(tokens, tokens, is_cached=False))
            return await self._read_pieces(provider, call, purpose[:MOST_PURPOSE], chunks)
        except (ProviderError, EmptyAnswer) as error:
            self.emit(
                Noticed(f"no model could read the output of `{call.name}`, so its beginning and end are shown: {error}")
            )
            return None

    async def _reader(self, job: SummaryJob) -> Provider:
        try:
            chosen: Sequence[Provider] = await self.summarisers(job, self.emit) if self.summarisers is not None else ()
        except AgentError as error:
            self.emit(Noticed(f"the model that is set for summaries cannot be used: {error}"))
            chosen = ()
        return chosen[0] if chosen else self.provider()

    async def _read_pieces(
        self, provider: Provider, call: ToolCall, purpose: str, chunks: Iterator[bytes]
    ) -> str | None:
        window = provider.window
        tokens = max(min(window.size // 2, window.effective - RESERVED_TOKENS), 500)
        found, rest = "", False
        for number, piece in enumerate(_pieces(chunks, tokens * BYTES_A_TOKEN), 1):
            if number > MOST_PIECES:
                rest = True
                break
            so_far = f"Found in the parts before:\n{found}\n\n" if found else ""
            said = (
                f"Purpose:\n{purpose}\n\nCall: {call_text(call)[:MOST_PURPOSE]}\n\n"
                f"{so_far}Part {number} of the output:\n{readable(piece)}\n\n{QUESTION}"
            )
            request = Request(READER, (User((Text(said),)),), (), min(window.output, ANSWER), self.session)
            reply = await stream_reply(provider, request, self.interrupt, self._quietly)
            if self.interrupt.is_requested():
                return None
            found = reply.message.text.strip()
        more = f"\n[only the first {MOST_PIECES} parts were read]" if rest else ""
        return f"Read by a model for this call:\n{found}{more}" if found else None

    def _quietly(self, event: Event) -> None:
        """Report only the cost of a reading, and retries."""
        if isinstance(event, ReplyFinished):
            self.emit(replace(event, purpose="reading"))
        elif isinstance(event, RetryScheduled):
            self.emit(event)


def _pieces(chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Split the bytes into pieces of at most `most` bytes, at line ends where possible."""
    held = b""
    for chunk in chunks:
        held += chunk
        while len(held) > most:
            end = held.rfind(b"\n", 0, most) + 1 or most
            yield held[:end]
            held = held[end:]
    if held:
        yield held
