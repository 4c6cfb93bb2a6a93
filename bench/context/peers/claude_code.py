"""The context policy of Claude Code, from its documentation and published analyses of versions 2.1.68 to 2.1.112.

`services/compact/autoCompact.ts`: before each request, the conversation is summarised if it reaches the window minus
20,000 tokens for the summary and a buffer of 13,000: 167,000 of 200,000 tokens. `compact.ts`: the request continues the
conversation with the same system prompt and tools, so it is read from the cache. Nothing of the conversation stays; up
to five files that were read last are attached again, those of up to 5,000 tokens with their content, 50,000 together.
`microCompact.ts`: after an hour without a request, all but the five newest outputs of common tools are cleared, which
costs nothing because the cache has expired (gap and number from anthropics/claude-code issues and version 2.1.112).
`constants/toolLimits.ts` and the tools: commands show 30,000 characters and searches 20,000; of other outputs over
50,000, 2,000 are shown; files show 2,000 lines and 25,000 tokens. `claude.ts`: one message has a breakpoint. The cache
lives for five minutes with an API key and an hour with a subscription (code.claude.com/docs/en/prompt-caching): use the
prices `anthropic` and `anthropic-1h`."""

from dataclasses import dataclass

from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import (
    History,
    ToolOutput,
    calls_by_id,
    keep_ends,
    keep_lines,
    oldest_outputs,
    output_text,
    replace_outputs,
    requested_lines,
    stand_in,
    user_message,
)

SUMMARY_RESERVE, BUFFER = 20_000, 13_000
MAX_FILES, MAX_FILE_TOKENS, MAX_FILES_TOKENS = 5, 5_000, 50_000
CLEARED_AFTER_SECONDS, REMAINING_OUTPUTS = 3_600, 5
CLEARED_TOOLS = frozenset({"read", "bash", "grep", "glob", "edit", "write", "WebFetch", "WebSearch"})
CLEARED = "[Old tool result content cleared]"
COMMAND_CHARS, SEARCH_CHARS, OUTPUT_CHARS, PREVIEW_CHARS = 30_000, 20_000, 50_000, 2_000
FILE_LINES, FILE_CHARS = 2_000, 100_000
PROMPT_CHARS, PREFIX_CHARS = 6_000, 600


@dataclass(frozen=True, slots=True)
class ClaudeCode(Peer):
    marked_messages: int = 1

    def show_output(self, output: ToolOutput) -> str:
        match output.kind:
            case "bash":
                return keep_ends(output.output, COMMAND_CHARS // 2, COMMAND_CHARS // 2)
            case "read":
                return keep_lines(output.output, requested_lines(output, FILE_LINES), FILE_CHARS)
            case kind:
                limit = SEARCH_CHARS if kind == "grep" else OUTPUT_CHARS
                return output.output if len(output.output) <= limit else output.output[:PREVIEW_CHARS]

    def plan(self, moment: Moment) -> Plan | None:
        history = moment.history
        if moment.is_overflow or moment.used >= moment.window - SUMMARY_RESERVE - BUFFER:
            files = _recent_files(history)

            def rebuild(summary: str) -> History:
                attached = (user_message(file, "program") for file in files)
                return (user_message(f"{stand_in(PREFIX_CHARS)}\n{summary}", "summary"), *attached)

            prompt = user_message(stand_in(PROMPT_CHARS), "program")
            return Plan(rebuild, (SummaryRequest((*history, prompt)),))
        if moment.idle >= CLEARED_AFTER_SECONDS:
            cleared = _clear_old_outputs(history)
            return Plan(lambda _: cleared)
        return None


def _clear_old_outputs(history: History) -> History:
    calls = calls_by_id(history)
    old = [block["tool_use_id"] for block in oldest_outputs(history, REMAINING_OUTPUTS)]
    texts = {id: CLEARED for id in old if id in calls and calls[id]["name"] in CLEARED_TOOLS}
    return replace_outputs(history, texts)


def _recent_files(history: History) -> list[str]:
    """Return the last files that were read, newest first: their content, or only the name of a large file."""
    calls = calls_by_id(history)
    content: dict[str, str] = {}
    for message in history:
        for block in message.outputs:
            call = calls.get(block["tool_use_id"])
            if call is not None and call["name"] == "read" and output_text(block) != CLEARED:
                path = str(call["input"].get("path", ""))
                content.pop(path, None)
                content[path] = output_text(block)
    found: list[str] = []
    room = MAX_FILES_TOKENS
    for path, text in list(content.items())[: -MAX_FILES - 1 : -1]:
        is_small = len(text) // 4 <= min(MAX_FILE_TOKENS, room)
        room -= len(text) // 4 if is_small else 0
        found.append(f"{path}\n{text}" if is_small else f"{path} was read before, but is too large to include.")
    return found
