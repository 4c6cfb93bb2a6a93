"""The context policy of Codex (openai/codex, source of mid-2026, releases 0.153 to 0.158).

`protocol/src/openai_models.rs`: the history is compacted at 90 % of the window, before a turn and after each step that
is followed by another. `core/src/compact_remote_v2.rs` (commit 009bd870): with OpenAI's own API, the request is the
usual one, with the same instructions and tools, and a trigger item at the end, so it is read from the cache. The new
history is the user's messages up to 64,000 tokens, newest first, and an encrypted compaction item, which is replaced
here by the summary. `context_manager/history.rs`: outputs are cut in the middle as they enter the history, to the
10,000 tokens (of four bytes) of the model's truncation policy."""

from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import History, ToolOutput, keep_ends, newest_that_fit, user_message

TRIGGER = 0.9
RETAINED_TOKENS = 64_000
OUTPUT_CHARS = 40_000


class Codex(Peer):
    __slots__ = ()

    def show_output(self, output: ToolOutput) -> str:
        return keep_ends(output.output, OUTPUT_CHARS // 2, OUTPUT_CHARS // 2)

    def plan(self, moment: Moment) -> Plan | None:
        history, new = moment.before_new_message()
        if not moment.is_overflow and moment.used < TRIGGER * moment.window:
            return None
        retained = newest_that_fit([one for one in history if one.origin == "user"], RETAINED_TOKENS)

        def rebuild(summary: str) -> History:
            return (*retained, user_message(summary, "summary"), *new)

        return Plan(rebuild, (SummaryRequest((*history, user_message("compact", "program"))),))
