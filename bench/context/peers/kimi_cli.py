"""The context policy of Kimi CLI (MoonshotAI/kimi-cli 1.49.0, commit 4a550eff of 2026-07-16).

`soul/compaction.py`: before each request, the history is compacted at 85 % of the window, or if 50,000 tokens or fewer
remain. The model gets all text of the history, outputs included but calls not, in one message under another system
prompt and without tools. The last two messages of the user or the model stay, with the outputs after them. Outputs show
50,000 characters, files 1,000 lines or 100 KB (`tools/utils.py`, `tools/file/read.py`)."""

from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import (
    History,
    ToolOutput,
    block_text,
    keep_lines,
    requested_lines,
    stand_in,
    user_message,
)
from bench.context.peers.kimi_code import FILE_BYTES, FILE_LINES, LINE_CHARS, OUTPUT_CHARS, is_due

PRESERVED_MESSAGES = 2
SYSTEM = "You are a helpful assistant that compacts conversation context."
PROMPT_CHARS = 1_858


class KimiCli(Peer):
    __slots__ = ()

    def show_output(self, output: ToolOutput) -> str:
        if output.kind == "read":
            lines = min(FILE_LINES, requested_lines(output, FILE_LINES))
            return keep_lines(output.output, lines, FILE_BYTES, LINE_CHARS)
        return keep_lines(output.output[:OUTPUT_CHARS], 10**9, max_line_chars=LINE_CHARS)

    def plan(self, moment: Moment) -> Plan | None:
        if not moment.is_overflow and not is_due(moment):
            return None
        spoken = [at for at, one in enumerate(moment.history) if one.origin != "outputs"]
        if len(spoken) <= PRESERVED_MESSAGES:
            return None
        start = spoken[-PRESERVED_MESSAGES]
        quoted = [
            f"## Message {number}\nRole: {one.role}\nContent:\n"
            + "".join(block_text(block) for block in one.blocks if block["type"] != "tool_use")
            for number, one in enumerate(moment.history[:start], 1)
        ]

        def rebuild(summary: str) -> History:
            return (user_message(summary, "summary"), *moment.history[start:])

        text = "".join((*quoted, stand_in(PROMPT_CHARS)))
        return Plan(rebuild, (SummaryRequest((user_message(text),), SYSTEM),))
