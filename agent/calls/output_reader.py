"""Asks a model to read a long output in pieces, and to extract what is relevant to the purpose of the call."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.budget.summary_cost import SummaryJob
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.errors import AgentError, EmptyAnswer, ProviderError
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished, RetryScheduled
from ebbtide.agent.messages import Text, ToolCall, User
from ebbtide.agent.providers.base import Provider, Request
from ebbtide.agent.providers.learned_limits import SummariserSource
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.view.message_text import call_text
from ebbtide.agent.view.previews import decode_output
from ebbtide.tools.lazy import dataclass

READER_PROMPT = (
    "You read the output of a tool for a coding agent that cannot see it, and answer what the agent wanted to know."
)
READER_QUESTION = (
    "From this part and what was found before, write down all that bears on the purpose: exact lines, names, numbers, "
    "paths and errors, with line numbers where you can tell them. At most 300 words. Say so when there is nothing."
)
MAX_PIECES = 8
"""Maximum number of pieces of one output to read. The model can read the rest with `read_result`."""
MAX_ANSWER_TOKENS = 1024
"""Maximum length of an answer, in tokens."""
RESERVED_TOKENS = 3000
"""Tokens reserved in a request for everything but the piece of output, that is, for the prompt and the answer."""
BYTES_PER_TOKEN = 2
MAX_PURPOSE_CHARS = 2000
"""Maximum number of characters of the purpose in the prompt. The same limit applies to the call."""


@dataclass(frozen=True, slots=True)
class OutputReader:
    """Reads outputs with the first configured summary model, or with the session's own model if none is configured."""

    get_provider: Callable[[], Provider]
    session_id: str
    interrupt: Interrupt
    emit: Callable[[Event], None]
    choose_summarisers: SummariserSource | None = None

    async def __call__(self, call: ToolCall, purpose: str, chunks: Iterator[bytes], byte_count: int) -> str | None:
        """Return what a model found in the output; None if no model could be asked."""
        try:
            input_tokens = byte_count // BYTES_PER_TOKEN
            provider = await self._choose_provider(SummaryJob(input_tokens, input_tokens, is_cached=False))
            return await self._read_pieces(provider, call, purpose[:MAX_PURPOSE_CHARS], chunks)
        except (ProviderError, EmptyAnswer) as error:
            self.emit(
                Noticed(f"no model could read the output of `{call.name}`, so its beginning and end are shown: {error}")
            )
            return None

    async def _choose_provider(self, job: SummaryJob) -> Provider:
        try:
            candidates: Sequence[Provider] = (
                await self.choose_summarisers(job, self.emit) if self.choose_summarisers is not None else ()
            )
        except AgentError as error:
            self.emit(Noticed(f"the model that is set for summaries cannot be used: {error}"))
            candidates = ()
        return candidates[0] if candidates else self.get_provider()

    async def _read_pieces(
        self, provider: Provider, call: ToolCall, purpose: str, chunks: Iterator[bytes]
    ) -> str | None:
        window = provider.window
        piece_tokens = max(min(window.size // 2, window.available_tokens - RESERVED_TOKENS), 500)
        findings, has_more = "", False
        for piece_number, piece in enumerate(_split_at_lines(chunks, piece_tokens * BYTES_PER_TOKEN), 1):
            if piece_number > MAX_PIECES:
                has_more = True
                break
            earlier_findings = f"Found in the parts before:\n{findings}\n\n" if findings else ""
            prompt = (
                f"Purpose:\n{purpose}\n\nCall: {call_text(call)[:MAX_PURPOSE_CHARS]}\n\n"
                f"{earlier_findings}Part {piece_number} of the output:\n{decode_output(piece)}\n\n{READER_QUESTION}"
            )
            request = Request(
                READER_PROMPT, (User((Text(prompt),)),), (), min(window.output, MAX_ANSWER_TOKENS), self.session_id
            )
            reply = await stream_reply(provider, request, self.interrupt, self._emit_retries_and_cost)
            if self.interrupt.is_requested():
                return None
            findings = reply.message.text.strip()
        cut_note = f"\n[only the first {MAX_PIECES} parts were read]" if has_more else ""
        return f"Read by a model for this call:\n{findings}{cut_note}" if findings else None

    def _emit_retries_and_cost(self, event: Event) -> None:
        """Forward only the reader model's retries and cost."""
        if isinstance(event, ReplyFinished):
            self.emit(replace(event, purpose="reading"))
        elif isinstance(event, RetryScheduled):
            self.emit(event)


def _split_at_lines(chunks: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    """Split the chunks into pieces of at most `max_bytes` bytes, each ending with a whole line where possible."""
    buffer = b""
    for chunk in chunks:
        buffer += chunk
        while len(buffer) > max_bytes:
            end = buffer.rfind(b"\n", 0, max_bytes) + 1 or max_bytes
            yield buffer[:end]
            buffer = buffer[end:]
    if buffer:
        yield buffer
