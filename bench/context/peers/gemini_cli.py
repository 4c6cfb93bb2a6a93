"""The context policy of Gemini CLI (google-gemini/gemini-cli, commit 5411f113 of 2026-08-21).

`core/client.ts`: before each request, the history is compressed if the last request reached half of the window; then
old outputs are masked. `context/chatCompressionService.ts`: the history is split before the first user message after
70 % of its characters. A model of the same tier summarises the part before, under another system prompt and without
tools, and then checks its summary in a second request. Of the outputs in the part that stays, all beyond the newest
50,000 tokens are cut to 40,000 characters. A turn is never split: a session that is one long turn is not compressed,
and one whose last turn alone exceeds half of the window is compressed before each request. Its models have windows of
1,048,576 tokens, where both are rare.
`context/toolOutputMaskingService.ts`: outputs beyond the newest 50,000 tokens are reduced to a preview once there are
30,000 tokens of them. `scheduler/tool-executor.ts`: commands show 40,000 characters, files 2,000 lines."""

import json

from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import (
    History,
    ToolOutput,
    assistant_message,
    block_text,
    calls_by_id,
    keep_ends,
    keep_lines,
    output_text,
    replace_outputs,
    requested_lines,
    stand_in,
    user_message,
)

TRIGGER, SUMMARISED_SHARE = 0.5, 0.7
PROTECTED_TOKENS, MIN_MASKED_TOKENS = 50_000, 30_000
OUTPUT_CHARS, FILE_LINES, LINE_CHARS, MATCHES = 40_000, 2_000, 2_000, 100
HEAD_CHARS, PREVIEW_CHARS, PREVIEW_LINES = 8_000, 250, 10
SYSTEM_CHARS, PROMPT_CHARS, CHECK_CHARS = 3_937, 170, 330
MASKED = "<tool_output_masked>"


class GeminiCli(Peer):
    __slots__ = ()

    def show_output(self, output: ToolOutput) -> str:
        match output.kind:
            case "bash":
                return keep_ends(output.output, HEAD_CHARS, OUTPUT_CHARS - HEAD_CHARS)
            case "read":
                return keep_lines(output.output, requested_lines(output, FILE_LINES), max_line_chars=LINE_CHARS)
            case "grep":
                return keep_lines(output.output, MATCHES, max_line_chars=LINE_CHARS)
            case _:
                return output.output

    def plan(self, moment: Moment) -> Plan | None:
        pending = moment.pending
        history = moment.history[: len(moment.history) - len(pending)]
        if moment.is_overflow or (moment.usage is not None and moment.usage.prompt >= TRIGGER * moment.window):
            split = _split_index(history)
            if split:
                retained = _cut_old_outputs(history)[split:]
                request = SummaryRequest(
                    (*history[:split], user_message(stand_in(PROMPT_CHARS), "program")),
                    stand_in(SYSTEM_CHARS),
                    follow_up=stand_in(CHECK_CHARS),
                )
                return Plan(lambda summary: (*_snapshot(summary), *_mask(retained), *pending), (request,))
        masked = _mask(history)
        return Plan(lambda _: (*masked, *pending)) if masked is not history else None


def _snapshot(summary: str) -> History:
    answer = "Got it. Thanks for the additional context!"
    return (user_message(summary, "summary"), assistant_message(answer, "program"))


def _split_index(history: History) -> int:
    """Return the index of the first message that stays."""
    sizes = [sum(len(block_text(block)) for block in one.blocks) for one in history]
    passed = last = 0
    for at, one in enumerate(history):
        if one.origin not in ("outputs", "model") and not one.is_assistant:
            if passed >= SUMMARISED_SHARE * sum(sizes):
                return at
            last = at
        passed += sizes[at]
    return len(history) if history and history[-1].is_assistant and not history[-1].calls else last


def _cut_old_outputs(history: History) -> History:
    texts: dict[str, str] = {}
    tokens = 0
    for message in reversed(history):
        for block in reversed(message.outputs):
            text = output_text(block)
            if tokens + len(text) // 4 > PROTECTED_TOKENS:
                text = texts[block["tool_use_id"]] = keep_ends(text, HEAD_CHARS, OUTPUT_CHARS - HEAD_CHARS)
            tokens += len(text) // 4
    return replace_outputs(history, texts)


def _mask(history: History) -> History:
    calls = calls_by_id(history)
    texts: dict[str, str] = {}
    protected = masked = 0
    for message in reversed(history[:-1]):
        for block in reversed(message.outputs):
            text = output_text(block)
            if text.startswith(MASKED):
                continue
            tokens = len(json.dumps(text, ensure_ascii=False)) // 4
            protected += tokens
            if protected > PROTECTED_TOKENS:
                masked += tokens
                call = calls.get(block["tool_use_id"])
                preview = _preview(text, is_command=call is not None and call["name"] == "bash")
                if len(preview) < len(text):
                    texts[block["tool_use_id"]] = preview
    return replace_outputs(history, texts) if masked >= MIN_MASKED_TOKENS and texts else history


def _preview(text: str, *, is_command: bool) -> str:
    lines = text.split("\n")
    if is_command and len(lines) > 2 * PREVIEW_LINES:
        text = "\n".join((*lines[:PREVIEW_LINES], "… lines omitted …", *lines[-PREVIEW_LINES:]))
    elif not is_command:
        text = keep_ends(text, PREVIEW_CHARS, PREVIEW_CHARS)
    return f"{MASKED}\n{text}\n\nOutput too large. Full output available at a file.\n</tool_output_masked>"
