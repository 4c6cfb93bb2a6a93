"""Has a model extract from a long output what is relevant to the purpose of the call. The model either reads the output
part by part, or looks up parts of it with the tool for stored outputs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.budget.summary_cost import SummaryJob
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.errors import AgentError, EmptyAnswer, ProviderError
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished, RetryScheduled
from ebbtide.agent.messages import Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.base import Provider, Reply, Request
from ebbtide.agent.providers.learned_limits import SummariserSource
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.message_text import call_text, with_unique_ids
from ebbtide.agent.view.previews import decode_output
from ebbtide.tools.base import ToolError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.cap import Cap
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.stored_content import StoredContent
from ebbtide.tools.read_result import ReadResult, read_part

READER_PROMPT = (
    "You read the output of a tool for a coding agent that cannot see it, and answer what the agent wanted to know."
)
READER_QUESTION = (
    "From this part, write down all that bears on the purpose and was not found before: exact lines, names, numbers, "
    "paths and errors, with line numbers where you can tell them. At most 300 words. Say so when there is nothing."
)
MERGE_QUESTION = (
    "Put what was found in the parts together: all that bears on the purpose, each thing once, with exact lines, "
    "names, numbers, paths, errors and line numbers. At most 600 words."
)
LOOKUP_QUESTION = (
    f"Look up what bears on the purpose with `{ReadResult.name}`: search with `pattern`, and read with `lines`. Then "
    "write down all of it: exact lines, names, numbers, paths and errors, with line numbers. At most 300 words."
)
LAST_LOOKUP_NOTE = "No more can be looked up. Answer now with what was found."
MAX_PARTS = 24
"""Maximum number of parts of one output to read. The session's model can read the rest with `read_result`."""
MAX_LOOKUPS = 10
"""Maximum number of requests for one output that is looked up."""
MAX_ANSWER_TOKENS = 1024
"""Maximum length of an answer, in tokens."""
MAX_FINDINGS_CHARS = 6_000
"""If the findings in all parts are longer than this, the model puts them together in one more request. In the next
request, findings from earlier parts are cut to this length."""
RESERVED_TOKENS = 3000
"""Tokens reserved in a request for everything but the content, that is, for the prompt and the answer."""
BYTES_PER_TOKEN = 2
MAX_LOOKUP_BYTES = 16_384
"""Maximum size of the output of one lookup, in bytes."""
MAX_PURPOSE_CHARS = 2000
"""Maximum number of characters of the purpose in the prompt. The same limit applies to the call."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a model found in one part of an output."""

    first_line: int
    last_line: int
    next_line: int
    """The line with which the next part begins. It is the same as `last_line` if the part ends within a line."""
    text: str

    @property
    def headed_text(self) -> str:
        """The text, headed by the lines that it is about."""
        return f"Lines {self.first_line:,}-{self.last_line:,}: {self.text}"


@dataclass(frozen=True, slots=True)
class OutputReader:
    """Reads outputs with the first configured summary model, or with the session's own model if none is configured."""

    get_provider: Callable[[], Provider]
    session_id: str
    interrupt: Interrupt
    emit: Callable[[Event], None]
    choose_summarisers: SummariserSource | None = None

    async def read_parts(self, call: ToolCall, purpose: str, chunks: Iterator[bytes], byte_count: int) -> str | None:
        """Have a model read the output part by part. Return what it found; None if no model could be asked."""
        provider, task = await self._choose_provider(byte_count // BYTES_PER_TOKEN), _describe_task(call, purpose)
        window, findings, unread_note = provider.window, list[Finding](), ""
        part_tokens = max(min(window.size // 2, window.available_tokens - RESERVED_TOKENS), 500)
        for number, part in enumerate(_split_at_lines(chunks, part_tokens * BYTES_PER_TOKEN), 1):
            first_line = findings[-1].next_line if findings else 1
            if number > MAX_PARTS:
                unread_note = f"[only the first {MAX_PARTS} parts were read, up to line {first_line - 1:,}]"
                break
            line_count = part.count(b"\n") + (not part.endswith(b"\n"))
            earlier = f"Found in the parts before:\n{_join(findings)[-MAX_FINDINGS_CHARS:]}\n\n" if findings else ""
            lines = f"lines {first_line}-{first_line + line_count - 1}"
            prompt = (
                f"{task}\n\n{earlier}Part {number} of the output, {lines}:\n{decode_output(part)}\n\n{READER_QUESTION}"
            )
            try:
                reply = await self._ask(provider, (User((Text(prompt),)),))
            except (ProviderError, EmptyAnswer) as error:
                if not findings:
                    self._report_failure(call, str(error))
                    return None
                unread_note = f"[from line {first_line:,} on, nothing was read: {error}]"
                break
            if self.interrupt.is_requested():
                return None
            next_line = first_line + part.count(b"\n")
            findings.append(Finding(first_line, first_line + line_count - 1, next_line, reply.message.text.strip()))
        if not findings:
            return None
        found = findings[0].text if len(findings) == 1 and not unread_note else _join(findings)
        if len(found) > MAX_FINDINGS_CHARS and len(findings) > 1:
            found = await self._merge(provider, task, found) or found
        return "\n".join(filter(None, (f"Read by a model for this call:\n{found}", unread_note)))

    async def look_up(self, call: ToolCall, purpose: str, excerpt: str, stored: StoredContent) -> str | None:
        """Have a model look up parts of the output with `read_result`, by lines and by pattern. Return what it found;
        None if no model could be asked or none answered in time. `excerpt`: the beginning and end of the output."""
        provider = await self._choose_provider(len(excerpt) // BYTES_PER_TOKEN)
        content = stored.content
        prompt = (
            f"{_describe_task(call, purpose)}\n\nThe output is `{stored.ref}`, {pluralize(content.size, 'byte')} in "
            f"{pluralize(content.lines, 'line')}. An excerpt:\n{excerpt}\n\n{LOOKUP_QUESTION}"
        )
        messages: tuple[Message, ...] = (User((Text(prompt),)),)
        try:
            for number in range(1, MAX_LOOKUPS + 1):
                reply = await self._ask(provider, messages, (_LOOKUP_TOOL,))
                if self.interrupt.is_requested():
                    return None
                if not reply.message.calls:
                    found = reply.message.text.strip()
                    return f"Looked up by a model for this call:\n{found}" if found else None
                earlier_ids = {
                    call.id for message in messages if not isinstance(message, User) for call in message.calls
                }
                message = with_unique_ids(reply.message, earlier_ids)
                cap = _lookup_cap(provider.window, len(message.calls))
                outputs = tuple([await _run_lookup(lookup, stored, cap) for lookup in message.calls])
                is_last = number == MAX_LOOKUPS - 1
                messages = (*messages, message, User((*outputs, *((Text(LAST_LOOKUP_NOTE),) if is_last else ()))))
        except (ProviderError, EmptyAnswer) as error:
            self._report_failure(call, str(error))
            return None
        self._report_failure(call, f"it was still looking after {MAX_LOOKUPS} requests")
        return None

    async def _choose_provider(self, input_tokens: int) -> Provider:
        job = SummaryJob(input_tokens, input_tokens, is_cached=False)
        try:
            candidates: Sequence[Provider] = (
                await self.choose_summarisers(job, self.emit) if self.choose_summarisers is not None else ()
            )
        except AgentError as error:
            self.emit(Noticed(f"the model that is set for summaries cannot be used: {error}"))
            candidates = ()
        return candidates[0] if candidates else self.get_provider()

    async def _merge(self, provider: Provider, task: str, findings: str) -> str:
        """Have the model put its findings together. Return an empty string if it does not answer."""
        prompt = f"{task}\n\nFound in the parts of the output:\n{findings}\n\n{MERGE_QUESTION}"
        try:
            return (await self._ask(provider, (User((Text(prompt),)),))).message.text.strip()
        except (ProviderError, EmptyAnswer):
            return ""

    async def _ask(self, provider: Provider, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...] = ()) -> Reply:
        max_tokens = min(provider.window.output, MAX_ANSWER_TOKENS)
        request = Request(READER_PROMPT, messages, tools, max_tokens, self.session_id)
        return await stream_reply(provider, request, self.interrupt, self._emit_retries_and_cost)

    def _report_failure(self, call: ToolCall, reason: str) -> None:
        self.emit(
            Noticed(f"no model could read the output of `{call.name}`, so its beginning and end are shown: {reason}")
        )

    def _emit_retries_and_cost(self, event: Event) -> None:
        """Forward only the reader model's retries and cost."""
        if isinstance(event, ReplyFinished):
            self.emit(replace(event, purpose="reading"))
        elif isinstance(event, RetryScheduled):
            self.emit(event)


_LOOKUP_TOOL = ToolSpec(ReadResult.name, ReadResult.description, ReadResult.schema)


def _describe_task(call: ToolCall, purpose: str) -> str:
    return f"Purpose:\n{purpose[:MAX_PURPOSE_CHARS]}\n\nCall: {call_text(call)[:MAX_PURPOSE_CHARS]}"


def _join(findings: Sequence[Finding]) -> str:
    return "\n".join(finding.headed_text for finding in findings)


def _lookup_cap(window: Window, call_count: int) -> Cap:
    """Return the limit of each output if a request has `call_count` lookups. With it, the outputs of all requests fit
    into the window."""
    available_tokens = max(window.available_tokens - RESERVED_TOKENS, 500)
    return Cap(min(available_tokens * BYTES_PER_TOKEN // MAX_LOOKUPS, MAX_LOOKUP_BYTES) // call_count)


async def _run_lookup(call: ToolCall, stored: StoredContent, cap: Cap) -> ToolOutput:
    """Run one lookup, whichever reference it names: there is only one output."""
    if call.problem or call.name != ReadResult.name:
        return ToolOutput(call.id, call.problem or f"there is only `{ReadResult.name}`", "failed")
    try:
        return ToolOutput(call.id, (await read_part(stored, call.arguments, cap)).text)
    except ToolError as error:
        return ToolOutput(call.id, str(error), "failed")


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
