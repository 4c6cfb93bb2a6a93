"""The context policy of Kimi Code (MoonshotAI/kimi-code, commit d723cc47 of 2026-08-22, its engine agent-core-v2).

`agent/fullCompaction/strategy.ts`: before each request, the history is compacted at 85 % of the window, or if 50,000
tokens or fewer remain. `fullCompactionService.ts`: the request has the session's system prompt, tools and messages and
an instruction, so it is read from the cache. `agent/contextMemory/compactionHandoff.ts`: of the history only the user's
messages stay, up to 20,000 tokens, of which the oldest have 2,000, followed by the summary. Micro-compaction is
disabled. Of outputs over 50,000 characters, 2,000 are shown (`toolResultTruncationService.ts`); files show 1,000 lines
or 100 KB."""

from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import (
    History,
    ToolOutput,
    estimate_tokens,
    keep_lines,
    newest_that_fit,
    requested_lines,
    stand_in,
    user_message,
)

TRIGGER, RESERVED_TOKENS = 0.85, 50_000
USER_TOKENS, OLDEST_USER_TOKENS = 20_000, 2_000
OUTPUT_CHARS, PREVIEW_CHARS = 50_000, 2_000
FILE_LINES, FILE_BYTES, LINE_CHARS = 1_000, 102_400, 2_000
INSTRUCTION_CHARS, PREFIX_CHARS = 4_515, 554


def is_due(moment: Moment) -> bool:
    used = moment.used
    return used >= TRIGGER * moment.window or RESERVED_TOKENS < moment.window <= used + RESERVED_TOKENS


class KimiCode(Peer):
    __slots__ = ()

    def show_output(self, output: ToolOutput) -> str:
        if output.kind == "read":
            lines = min(FILE_LINES, requested_lines(output, FILE_LINES))
            return keep_lines(output.output, lines, FILE_BYTES, LINE_CHARS)
        return output.output if len(output.output) <= OUTPUT_CHARS else output.output[:PREVIEW_CHARS]

    def plan(self, moment: Moment) -> Plan | None:
        if not moment.is_overflow and not is_due(moment):
            return None
        retained = _user_messages(moment.history)

        def rebuild(summary: str) -> History:
            return (*retained, user_message(f"{stand_in(PREFIX_CHARS)}\n{summary}", "summary"))

        instruction = user_message(stand_in(INSTRUCTION_CHARS), "program")
        return Plan(rebuild, (SummaryRequest((*moment.history, instruction)),))


def _user_messages(history: History) -> History:
    """Return the user's messages; if there are too many, the beginning of the oldest and the newest."""
    messages = [one for one in history if one.origin == "user"]
    if estimate_tokens(messages) <= USER_TOKENS:
        return tuple(messages)
    newest = newest_that_fit(messages, USER_TOKENS - OLDEST_USER_TOKENS)
    oldest = user_message(messages[0].text[: 4 * OLDEST_USER_TOKENS])
    return (oldest, user_message("Some of the user's messages were omitted here.", "program"), *newest)
