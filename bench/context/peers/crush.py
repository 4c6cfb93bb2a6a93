"""The context policy of crush (charmbracelet/crush, commit 37f36e93 of 2026-08-21).

`internal/agent/agent.go`: after a step, the session is summarised if what remains of the window is at most 20,000
tokens, or a fifth of windows up to 200,000 tokens. Tokens written to the cache are not counted (`PromptTokens` is input
and cache reads). The large model writes the summary from the whole conversation under another system prompt
(`templates/summary.md`), without tools and breakpoints, so nothing is read from the cache. Only the summary remains, as
a user message, with the request that was interrupted. `internal/agent/tools`: commands show 15,000 characters of each
end, files 200 lines unless more are asked for, searches 100 matches."""

from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import (
    History,
    ToolOutput,
    keep_ends,
    keep_lines,
    requested_lines,
    stand_in,
    user_message,
)

LARGE_WINDOW, LARGE_WINDOW_BUFFER, SMALL_WINDOW_SHARE = 200_000, 20_000, 0.2
COMMAND_CHARS, FILE_LINES, LINE_CHARS, MATCHES, MATCH_CHARS = 30_000, 200, 2_000, 100, 500
SYSTEM_CHARS = 1_752
PROMPT = "Provide a detailed summary of our conversation above."


class Crush(Peer):
    __slots__ = ()

    def show_output(self, output: ToolOutput) -> str:
        match output.kind:
            case "bash":
                return keep_ends(output.output, COMMAND_CHARS // 2, COMMAND_CHARS // 2)
            case "read":
                lines = requested_lines(output, FILE_LINES)
                return keep_lines(output.output, lines, max_line_chars=LINE_CHARS)
            case "grep":
                return keep_lines(output.output, MATCHES, max_line_chars=MATCH_CHARS)
            case _:
                return output.output

    def plan(self, moment: Moment) -> Plan | None:
        buffer = LARGE_WINDOW_BUFFER if moment.window > LARGE_WINDOW else int(moment.window * SMALL_WINDOW_SHARE)
        usage = moment.usage
        counted = usage.input + usage.cache_read + usage.output if usage is not None else 0
        if not moment.is_overflow and counted < moment.window - buffer:
            return None
        history, new = moment.before_new_message()
        asked = next((one.text for one in reversed(history) if one.origin == "user"), "")
        reminder = f"The previous session was interrupted because it got too long. The user's request was: `{asked}`"

        def rebuild(summary: str) -> History:
            return (user_message(summary, "summary"), *(new or (user_message(reminder, "program"),)))

        messages = (*history, user_message(PROMPT, "program"))
        return Plan(rebuild, (SummaryRequest(messages, stand_in(SYSTEM_CHARS), is_marked=False),))
