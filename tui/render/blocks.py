"""Renders transcript blocks as terminal lines."""

from dataclasses import replace

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import command_argument, role_of
from ebbtide.tui.render.diff_lines import RenderedDiff, SegmentLine
from ebbtide.tui.render.diff_rows import build_diff_layout, without_blank_edges, without_file_name
from ebbtide.tui.render.markdown import has_same_header, split_finished_pieces
from ebbtide.tui.render.themed_markdown import PaletteConsole, highlight_code, markdown_renderable
from ebbtide.tui.text.sanitise import sanitise, sanitise_line, stable_prefix
from ebbtide.tui.text.spans import TextStyle, parse_inline_code
from ebbtide.tui.text.styles import Palette, clipped_text, styled_line
from ebbtide.tui.text.unified_diff import Hunk, Remark, parse_diff
from ebbtide.tui.view import receipts
from ebbtide.tui.view.advice import advice_for
from ebbtide.tui.view.block_groups import LookupGroup, lookup_summary
from ebbtide.tui.view.blocks import (
    MARGIN,
    MODEL_BAR,
    USER_BAR,
    AnswerText,
    Block,
    Call,
    CallStatus,
    DetailLevel,
    Failure,
    Notice,
    OlderMessages,
    ReasoningBlock,
    SummaryBlock,
    TurnTotal,
    UserText,
)
from ebbtide.tui.view.call_titles import argument_lines, call_title
from ebbtide.tui.view.outcomes import (
    MAX_FAILURE_LINES,
    call_diff,
    call_outcome,
    collapsed_lines,
    edited_path,
    last_output_lines,
)
from ebbtide.tui.view.plan import plan_text
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneCompaction
from ebbtide.tui.view.todos import todo_items, todo_lines, todo_lines_around_current
from ebbtide.tui.view.turn_total import total_text

_MAX_TAIL_LINES = 8
"""Maximum number of output lines shown for a running command. A quarter of the screen is also a limit."""
_MAX_PLAN_LINES = 24
_MAX_MARKDOWN_CHARS = 150_000
"""Maximum number of characters of an answer that are rendered as Markdown. The rest is plain text. Normal answers are
shorter."""
_PLAIN_BATCH_LINES = 60
_MAX_LINE_CHARS = 4_000
"""Maximum length, in characters, of a line of plain text. Longer lines are split at a space, so that only the end of an
answer has to be redrawn."""
_MAX_DIFF_SCREEN_SHARE = 2 / 3
"""Maximum share of the terminal's rows for a collapsed diff."""
_MAX_SHORT_DIFF_CHARS = 200
"""Maximum length, in characters, of a line in a collapsed diff."""
_MAX_TODO_ITEMS = 12
_MAX_EXPANDED_LINES = 400
_MAX_EXPANDED_CHARS = 60_000
_MAX_EXPANDED_ROWS = 2_000
"""Maximum number of lines in an expanded diff."""
_FULL_DIFF_HINT = "; `/diff session` shows the files as they are now"


def render_block(block: Block, detail: DetailLevel, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """Render a block as lines of at most `width` cells."""
    palette, is_expanded = console.palette, detail == "full"
    match block:
        case UserText(text=text):
            return _user_lines(text, width, console)
        case AnswerText(text=text):
            return AnswerRenderer(width, console, grows=False).render(text)
        case ReasoningBlock():
            return _reasoning_lines(block, is_expanded, width, console)
        case Call():
            return _call_lines(block, detail, width, console)
        case Notice(text=text):
            return _note_lines("·", text, palette.dim, "dim", width, console)
        case TurnTotal():
            return _total_lines(block, width, console)
        case Failure(code=code, message=message, cause=cause, default_advice=default_advice):
            advice = advice_for(code, message, cause)
            error_text = message.removesuffix(default_advice).rstrip() if advice else message
            error_lines = _note_lines("✗", error_text, palette.bad, "bad", width, console)
            return error_lines + (_note_lines(" ", advice, palette.dim, "text", width, console) if advice else [])
        case Compaction():
            return _receipt_lines(block, is_expanded, width, console)
        case RunningCompaction() | UndoneCompaction():
            return [_receipt_line(receipts.receipt_title(block), width, console)]
        case OlderMessages(message_count=message_count, problem=problem):
            return [
                _clip_to_line(
                    _older_messages_text(message_count, sanitise_line(problem), console.palette), width, console
                )
            ]
        case SummaryBlock(text=text):
            return _summary_lines(text, is_expanded, width, console)


class AnswerRenderer:
    """Renders a growing answer. Finished parts are rendered only once, so that just the end has to be redrawn. Very
    long answers are rendered as plain text, because rendering a megabyte of Markdown is slow."""

    def __init__(self, width: int, console: PaletteConsole, *, grows: bool = True) -> None:
        """`grows`: whether more text may come, so that long blocks have to be rendered in parts."""
        self._grows = grows
        self._width = max(1, width - MARGIN)
        self._console = console
        self._finished_lines: list[SegmentLine] = []
        self._processed_char_count = 0
        """Number of characters already in `_finished_lines` and `_unfinished_text`."""
        self._unfinished_text = ""
        self._has_gap = True
        self._is_plain = False
        self._previous_source = ""
        """The Markdown that was rendered last, and the widths of the columns if it was a table."""
        self._table_widths: tuple[int, ...] = ()

    @property
    def finished_line_count(self) -> int:
        """Number of lines that longer text will not change."""
        return len(self._finished_lines)

    def render(self, text: str) -> list[SegmentLine]:
        """Render text, which must begin with the text from the previous call."""
        text = stable_prefix(text)
        new_text = text[self._processed_char_count :]
        preceding_text = text[max(0, self._processed_char_count - 2) : self._processed_char_count]
        markdown_char_count = 0 if self._is_plain else max(0, _MAX_MARKDOWN_CHARS - self._processed_char_count)
        self._unfinished_text += sanitise(new_text[:markdown_char_count], preceding_text)
        self._processed_char_count = len(text)
        if not self._is_plain:
            pieces, self._unfinished_text, self._has_gap = split_finished_pieces(
                (), self._unfinished_text, self._has_gap, cuts_long_blocks=self._grows
            )
            gaps_below = [*(piece.has_gap for piece in pieces[1:]), self._has_gap]
            for piece, has_gap_below in zip(pieces, gaps_below, strict=False):
                self._finished_lines += self._markdown_lines(piece.source, piece.has_gap, is_part=not has_gap_below)
        if len(new_text) > markdown_char_count:
            self._is_plain = True
            *complete_lines, self._unfinished_text = _split_long_lines(
                self._unfinished_text
                + sanitise(new_text[markdown_char_count:], new_text[:markdown_char_count] or preceding_text)
            )
            for start in range(0, len(complete_lines), _PLAIN_BATCH_LINES):
                self._finished_lines += self._plain_lines("\n".join(complete_lines[start : start + _PLAIN_BATCH_LINES]))
        if not self._unfinished_text.strip():
            return self._finished_lines
        return self._finished_lines + (
            self._plain_lines(self._unfinished_text)
            if self._is_plain
            else self._markdown_lines(self._unfinished_text, self._has_gap)
        )

    def _plain_lines(self, text: str) -> list[SegmentLine]:
        styled_text = Text(text.expandtabs(4), self._console.palette.text, end="")
        return self._with_bar(self._console.render_to_lines(styled_text, self._width))

    def _markdown_lines(self, source: str, has_gap: bool, *, is_part: bool = False) -> list[SegmentLine]:
        """Render a piece of Markdown. `is_part`: whether it is only the first part of a block."""
        is_same_table = bool(self._table_widths) and has_same_header(source, self._previous_source)
        is_continued = is_same_table and not has_gap
        renderable = markdown_renderable(
            source,
            self._console.palette,
            self._table_widths if is_continued or (is_same_table and is_part) else (),
            has_table_header=not is_continued,
        )
        lines = self._console.render_to_lines(renderable, self._width)
        self._previous_source, self._table_widths = source, renderable.table_widths
        return self._with_bar(([[]] if has_gap and self._finished_lines else []) + lines)

    def _with_bar(self, lines: list[SegmentLine]) -> list[SegmentLine]:
        bar = Segment(f"{MODEL_BAR} ", self._console.palette.model_bar)
        return [[bar, *line] for line in lines]


class ReasoningRenderer:
    """Renders growing reasoning in full. Complete lines are rendered only once."""

    def __init__(self, width: int, console: PaletteConsole) -> None:
        self._width, self._console = width, console
        self._finished_lines = [_clip_to_line(Text("✻ thought", console.palette.dim), width, console)]
        self._processed_char_count = 0
        """Number of characters in `_finished_lines`."""

    @property
    def finished_line_count(self) -> int:
        """Number of lines that longer text will not change."""
        return len(self._finished_lines)

    def render(self, text: str) -> list[SegmentLine]:
        """Render text, which must begin with the text from the previous call."""
        text = stable_prefix(text).rstrip()
        self._processed_char_count = self._processed_char_count or len(text) - len(text.lstrip())
        *complete_lines, last_line = _split_long_lines(text[self._processed_char_count :])
        for line in complete_lines:
            self._finished_lines += self._quote_line(line)
        self._processed_char_count = len(text) - len(last_line)
        return self._finished_lines + (self._quote_line(last_line) if last_line else [])

    def _quote_line(self, line: str) -> list[SegmentLine]:
        if not line.strip():
            return _with_left_border([[]], self._console.palette)
        return _quote_lines(line.removesuffix("\r"), self._console.palette.comment, self._width, self._console)


def _split_long_lines(text: str) -> list[str]:
    """Split text into lines, at least one. Each line break depends only on the text before it, so appending text does
    not change earlier lines."""
    lines = []
    for line in text.split("\n"):
        start = 0
        while len(line) - start > _MAX_LINE_CHARS:
            space_index = line.rfind(" ", start, start + _MAX_LINE_CHARS)
            end = space_index + 1 if space_index >= 0 else start + _MAX_LINE_CHARS
            lines.append(line[start:end])
            start = end
        lines.append(line[start:])
    return lines


def _user_lines(text: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette = console.palette
    styled_text = Text(sanitise(_without_middle(text)).expandtabs(4).strip("\n"), palette.text, end="")
    lines = []
    for line in console.render_to_lines(styled_text, max(1, width - MARGIN - 1)):
        padded = Segment.adjust_line_length([Segment(f"{USER_BAR} ", palette.user_bar), *line], width)
        lines.append(list(Segment.apply_style(padded, palette.user)))
    return lines


def _reasoning_lines(
    block: ReasoningBlock, is_expanded: bool, width: int, console: PaletteConsole
) -> list[SegmentLine]:
    palette = console.palette
    if is_expanded:
        return ReasoningRenderer(width, console).render(block.text)
    reasoning = block.text.strip()
    visible_line = reasoning.rsplit("\n", 1)[-1] if block.is_streaming else reasoning.split("\n", 1)[0]
    title = Text.assemble(("✻ ", palette.dim), (sanitise_line(visible_line), palette.comment), end="")
    return [_clip_to_line(title, width, console)]


def _summary_lines(text: str, is_expanded: bool, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette = console.palette
    title = _clip_to_line(
        Text.assemble(("≋ ", palette.accent), ("earlier conversation, summarised", palette.dim)), width, console
    )
    return [title, *(_quote_lines(sanitise(text).strip(), palette.dim, width, console) if is_expanded else [])]


def _older_messages_text(message_count: int, problem: str, palette: Palette) -> Text:
    hint = (problem, palette.bad) if problem else ("scroll up or press Enter to load them", palette.dim)
    return Text.assemble(
        ("≋ ", palette.accent), (f"{pluralize(message_count, 'earlier message')}  ", palette.dim), hint
    )


def _note_lines(
    mark: str, text: str, style: Style, text_style: TextStyle, width: int, console: PaletteConsole
) -> list[SegmentLine]:
    styled_text = styled_line(
        parse_inline_code(sanitise(_without_middle(text)).expandtabs(4).strip("\n"), text_style), console.palette
    )
    lines = console.render_to_lines(styled_text, max(1, width - MARGIN))
    return [[Segment(f"{mark} " if index == 0 else "  ", style), *line] for index, line in enumerate(lines)]


def _total_lines(block: TurnTotal, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette = console.palette
    if not block.is_interrupted:
        return _note_lines("·", total_text(block), palette.dim, "dim", width, console)
    interruption, _, facts = total_text(block).partition("\n")
    lines = _note_lines("■", interruption, palette.warn, "text", width, console)
    return lines + (_note_lines(" ", facts, palette.dim, "dim", width, console) if facts else [])


def _receipt_lines(block: Compaction, is_expanded: bool, width: int, console: PaletteConsole) -> list[SegmentLine]:
    title = receipts.receipt_title(block)
    if not is_expanded:
        return [_receipt_line(title + receipts.receipt_hints(title, width - MARGIN), width, console)]
    lines = [_receipt_line(title, width, console)]
    palette = console.palette
    for kind, text in receipts.receipt_details(block):
        style = palette.text if kind == "head" else palette.dim
        lines += _quote_lines(sanitise_line(text), style, width, console, wrap=kind == "head")
    return lines


def _receipt_line(text: str, width: int, console: PaletteConsole) -> SegmentLine:
    palette = console.palette
    return _clip_to_line(Text.assemble(("≋ ", palette.accent), (sanitise_line(text), palette.dim)), width, console)


def _call_lines(block: Call, detail: DetailLevel, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette, is_expanded = console.palette, detail == "full"
    diff = call_diff(block) if block.status in ("asking", "running", "done") or is_expanded else ""
    line_count = len(last_output_lines(block)) if detail == "normal" and not diff else 0
    lines = [_clip_to_line(_call_title(block, diff, width, palette, line_count), width, console)]
    if block.name == PLAN_TOOL:
        lines += _plan_lines(block, is_expanded, width, console) if detail != "compact" else []
    elif is_expanded:
        return lines + _call_details(block, diff, width, console)
    if block.status == "running" and block.output_tail.strip():
        return lines + _output_tail_lines(block.output_tail, width, console)
    result_lines, is_command_output = collapsed_lines(block)
    if not result_lines and detail == "normal" and block.status == "done" and block.name != PLAN_TOOL:
        return lines + _result_lines(block, diff, width, console)
    output_lines = (
        _quote_lines("\n".join(result_lines), palette.dim, width, console, wrap=not is_command_output)
        if result_lines
        else []
    )
    return lines + (output_lines if is_command_output else output_lines[:MAX_FAILURE_LINES])


def _plan_lines(block: Call, is_expanded: bool, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """Render a submitted plan. A long plan is cut off until its call is expanded."""
    plan = plan_text(block)
    lines = [
        line[1:] for line in AnswerRenderer(width - MARGIN, console, grows=False).render(plan)
    ]  # strips the margin
    if not is_expanded and len(lines) > _MAX_PLAN_LINES:
        more = Text(f"… {pluralize(len(lines) - _MAX_PLAN_LINES, 'more line')}", console.palette.dim)
        lines = [*lines[:_MAX_PLAN_LINES], _clip_to_line(more, max(1, width - MARGIN - 2), console)]
    return _with_left_border(lines, console.palette)


def _result_lines(block: Call, diff: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """Render the result of a successful call: a short diff, the to-do list or the end of its output."""
    if diff:
        return _with_left_border(
            _short_diff_lines(diff, edited_path(block), max(1, width - MARGIN - 2), console), console.palette
        )
    if role_of(block.name) == "list_todos":
        todo_text = clipped_text(todo_lines_around_current(todo_items(block), _MAX_TODO_ITEMS), console.palette)
        return (
            _with_left_border(console.render_to_lines(todo_text, max(1, width - MARGIN - 2)), console.palette)
            if todo_text
            else []
        )
    text = "\n".join(line[:_MAX_LINE_CHARS] for line in last_output_lines(block))
    return _quote_lines(text, console.palette.dim, width, console, wrap=False) if text else []


def render_lookups(lookups: LookupGroup, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """Render consecutive lookups as one line."""
    palette = console.palette
    summary, subjects = lookup_summary(lookups)
    mark, style = _status_mark(
        "running" if any(call.status == "running" for call in lookups.calls) else "done", palette
    )
    title = Text.assemble((f"{mark} ", style), (summary, palette.text), (f"  {subjects}", palette.dim), end="")
    return [_clip_to_line(title, width, console)]


def _call_title(block: Call, diff: str, width: int, palette: Palette, line_count: int = 0) -> Text:
    """Format a call's status mark, name, argument and outcome. The argument is shortened so that the outcome always
    fits. `line_count`: number of output lines shown below."""
    name, _, subject = call_title(block.name, block.arguments).partition("  ")
    mark, style = _status_mark(block.status, palette)
    title = Text.assemble((f"{mark} ", style), (name, palette.strong), end="")
    if subject:
        title.append(f"  {subject}", palette.text)
    outcome = call_outcome(block, diff, line_count)
    if not outcome:
        return title
    title.truncate(max(1, width - cell_len(outcome) - 2), overflow="ellipsis")
    return title.append(f"  {outcome}", palette.dim)


def _status_mark(status: CallStatus, palette: Palette) -> tuple[str, Style]:
    match status:
        case "asking":
            return "?", palette.warn
        case "running":
            return "○", palette.accent
        case "done":
            return "●", palette.good
        case "failed":
            return "✗", palette.bad
        case "denied":
            return "⊘", palette.warn
        case "cancelled" | "interrupted":
            return "◌", palette.dim


def _call_details(block: Call, diff: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette = console.palette
    inner_width = max(1, width - MARGIN - 2)
    lines: list[SegmentLine] = []
    command = command_argument(block.arguments)
    if command:
        lines += _with_left_border(
            console.render_to_lines(highlight_code(command, "bash", palette), inner_width), palette
        )
    elif diff:
        lines += _with_left_border(_diff_lines(diff, edited_path(block), inner_width, console), palette)
    elif role_of(block.name) == "list_todos":
        lines += _with_left_border(
            console.render_to_lines(clipped_text(todo_lines(todo_items(block)), palette), inner_width), palette
        )
    elif block.arguments:
        lines += _quote_lines(_without_middle("\n".join(argument_lines(block.arguments))), palette.text, width, console)
    text = _without_middle(block.text or block.output_tail)
    if diff and block.status == "done":  # the diff already shows the change
        text = "\n".join(block.problems.lines) if block.problems else ""
    if text.strip():
        lines += _with_left_border([[]], palette) if lines else []
        lines += _quote_lines(text.strip("\n"), palette.dim, width, console)
    if block.changed_files:
        lines += _quote_lines("changed " + ", ".join(block.changed_files), palette.dim, width, console)
    return lines


def _short_diff_lines(diff: str, name: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """Render as much of a diff as fits into its share of the screen. The file name is left out if the call's title
    contains it."""
    max_lines = max(4, int(console.height * _MAX_DIFF_SCREEN_SHARE))
    files = tuple(replace(file, parts=tuple(map(_without_long_lines, file.parts))) for file in parse_diff(diff))
    files = tuple(map(without_blank_edges, files))
    layout = without_file_name(build_diff_layout(files, max_rows=max_lines, name=name))
    return _limited_diff_lines(RenderedDiff(layout, width, console), max_lines + 1, "", width, console)


def _without_long_lines(part: Hunk | Remark) -> Hunk | Remark:
    if isinstance(part, Remark) or all(len(line.text) <= _MAX_SHORT_DIFF_CHARS for line in part.lines):
        return part
    shortened = (
        line if len(line.text) <= _MAX_SHORT_DIFF_CHARS else replace(line, text=f"{line.text[:_MAX_SHORT_DIFF_CHARS]}…")
        for line in part.lines
    )
    return replace(part, lines=tuple(shortened))


def _diff_lines(diff: str, name: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """Render the start of a diff, with a note about omitted lines."""
    layout = build_diff_layout(
        parse_diff(diff), width=width, max_rows=_MAX_EXPANDED_LINES, name=name, hint=_FULL_DIFF_HINT
    )
    return _limited_diff_lines(
        RenderedDiff(layout, width, console), _MAX_EXPANDED_ROWS, _FULL_DIFF_HINT, width, console
    )


def _limited_diff_lines(
    rendered_diff: RenderedDiff, max_lines: int, hint: str, width: int, console: PaletteConsole
) -> list[SegmentLine]:
    lines = [rendered_diff.get_line(y) for y in range(min(rendered_diff.line_count, max_lines))]
    if rendered_diff.line_count > max_lines:
        omitted_count = rendered_diff.line_count - max_lines
        note = f"… {pluralize(omitted_count, 'more line')}{hint}"
        lines.append(_clip_to_line(Text(note, console.palette.dim), width, console))
    return lines


def _output_tail_lines(tail: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """Render the last output lines of a running command, below a mark if there are earlier ones."""
    max_lines = max(3, min(_MAX_TAIL_LINES, console.height // 4))
    lines = tail.rstrip("\n").split("\n")
    ellipsis_lines = _quote_lines("…", console.palette.dim, width, console) if len(lines) > max_lines else []
    return ellipsis_lines + _quote_lines(
        "\n".join(lines[-max_lines:]), console.palette.text, width, console, wrap=False
    )


def _without_middle(text: str) -> str:
    """Remove the middle of text that is too long."""
    if len(text) > _MAX_EXPANDED_CHARS:
        half = _MAX_EXPANDED_CHARS // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half:,} characters …\n{text[-half:]}"
    lines = text.split("\n")
    if len(lines) <= _MAX_EXPANDED_LINES:
        return text
    half = _MAX_EXPANDED_LINES // 2
    return "\n".join((*lines[:half], f"… {pluralize(len(lines) - 2 * half, 'line')} …", *lines[-half:]))


def _quote_lines(text: str, style: Style, width: int, console: PaletteConsole, wrap: bool = True) -> list[SegmentLine]:
    """Render text with a thin line on the left. Long lines are wrapped if `wrap` is set, and otherwise cut off at the
    edge."""
    inner_width = max(1, width - MARGIN - 2)
    styled_text = Text(sanitise(text).expandtabs(4), style, end="")
    if not wrap:
        styled_text.no_wrap, styled_text.overflow = True, "ellipsis"
    return _with_left_border(console.render_to_lines(styled_text, inner_width), console.palette)


def _with_left_border(lines: list[SegmentLine], palette: Palette) -> list[SegmentLine]:
    return [[Segment("  │ ", palette.border), *line] for line in lines]


def _clip_to_line(text: Text, width: int, console: PaletteConsole) -> SegmentLine:
    """Render text as one line, cut at the edge."""
    text = text.copy()
    text.truncate(max(1, width), overflow="ellipsis")
    return console.render_to_lines(text, width)[0]
