"""Renders transcript blocks as terminal lines."""

from dataclasses import replace

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ebbtide.agent.context.control_calls import PLAN
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.render.diff_lines import RenderedDiff, SegmentLine
from ebbtide.tui.render.diff_rows import layout_of, without_blank_ends, without_name
from ebbtide.tui.render.markdown import advance_pieces
from ebbtide.tui.render.prose import PaletteConsole, highlight_code, prose
from ebbtide.tui.text.numbers import seconds
from ebbtide.tui.text.sanitise import sanitised, sanitised_line, stable_prefix
from ebbtide.tui.text.spans import TextStyle, parse_inline_code
from ebbtide.tui.text.styles import Palette, clipped_text, styled_line
from ebbtide.tui.text.unified_diff import Hunk, Remark, files_of
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
    Detail,
    Failure,
    Notice,
    OlderMessages,
    ReasoningBlock,
    Retry,
    SummaryBlock,
    TurnTotal,
    UserText,
)
from ebbtide.tui.view.call_titles import argument_lines, command_of, title_of
from ebbtide.tui.view.outcomes import MAX_FAILURE_LINES, diff_of, few_lines, file_of, last_printed, outcome_of
from ebbtide.tui.view.plan import text_of
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneReceipt
from ebbtide.tui.view.todos import items_of, short_list, todo_lines
from ebbtide.tui.view.turn_total import total_text

_TAIL_LINES = 8
"""Maximum output lines of a running command; also at most a quarter of the screen."""
_PLAN_LINES = 24
_MAX_MARKDOWN_CHARS = 150_000
"""Maximum characters of an answer rendered as Markdown, more than any normal answer."""
_PLAIN_LINES = 60
_MAX_LINE_CHARS = 4_000
"""Maximum characters of one line of plain text. Longer lines are split at a space, so that only the end of an answer
is redrawn."""
_SCREENFUL = 2 / 3
"""Share of the terminal's rows for a collapsed diff."""
_MAX_SHORT_DIFF_CHARS = 200
"""Maximum characters of a line in a collapsed diff."""
_TODO_ITEMS = 12
_OPEN_LINES = 400
_OPEN_CHARACTERS = 60_000
_OPEN_ROWS = 2_000
"""Maximum lines of an expanded diff."""
_WHERE_ALL_IS = "; `/diff session` shows what the files hold now"


def paint(block: Block, detail: Detail, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """The lines of a block, at most `width` wide."""
    palette, opened = console.palette, detail == "full"
    match block:
        case UserText(text=text):
            return _user_lines(text, width, console)
        case AnswerText(text=text):
            return AnswerPainter(width, console).draw(text)
        case ReasoningBlock():
            return _reasoning_lines(block, opened, width, console)
        case Call():
            return _call(block, detail, width, console)
        case Retry(delay=delay, reason=reason, attempts=attempts, left=left):
            end = " Esc stops it." if left is None and not attempts else ""
            note = f"{reason} Trying again in {seconds(round(delay))} ({block.which}).{end}"
            return _note("↻", note, palette.warn, "dim", width, console)
        case Notice(text=text):
            return _note("·", text, palette.dim, "dim", width, console)
        case TurnTotal():
            return _note("·", total_text(block), palette.dim, "dim", width, console)
        case Failure(code=code, message=message, cause=cause, todo=todo):
            advice = advice_for(code, message, cause)
            happened = message.removesuffix(todo).rstrip() if advice else message
            failed = _note("✗", happened, palette.bad, "bad", width, console)
            return failed + (_note(" ", advice, palette.dim, "text", width, console) if advice else [])
        case Compaction():
            return _receipt(block, opened, width, console)
        case RunningCompaction() | UndoneReceipt():
            return [_receipt_line(receipts.title_of(block), width, console)]
        case OlderMessages(messages=messages, problem=problem):
            return [_line(_earlier(messages, sanitised_line(problem), console.palette), width, console)]
        case SummaryBlock(text=text):
            return _summary(text, opened, width, console)


class AnswerPainter:
    """Renders a growing answer. Finished parts are rendered once, and only the end is redrawn. Excessively long text
    is rendered as plain text, because Markdown of a megabyte is slow."""

    def __init__(self, width: int, console: PaletteConsole) -> None:
        self._width = max(1, width - MARGIN)
        self._console = console
        self._drawn: list[SegmentLine] = []
        self._seen = 0
        """Number of characters in `_drawn` and `_rest`."""
        self._rest = ""
        self._gap = True
        self._is_plain = False

    def draw(self, text: str) -> list[SegmentLine]:
        """The lines of the text, which must start with the text of the last call."""
        text = stable_prefix(text)
        new, before = text[self._seen :], text[max(0, self._seen - 2) : self._seen]
        formatted = 0 if self._is_plain else max(0, _MAX_MARKDOWN_CHARS - self._seen)
        self._rest += sanitised(new[:formatted], before)
        self._seen = len(text)
        if not self._is_plain:
            pieces, self._rest, self._gap = advance_pieces((), self._rest, self._gap)
            for piece in pieces:
                self._drawn += self._piece(piece.source, piece.gap)
        if len(new) > formatted:
            self._is_plain = True
            *whole, self._rest = _split_long_lines(self._rest + sanitised(new[formatted:], new[:formatted] or before))
            for start in range(0, len(whole), _PLAIN_LINES):
                self._drawn += self._plain("\n".join(whole[start : start + _PLAIN_LINES]))
        if not self._rest.strip():
            return self._drawn
        return self._drawn + (self._plain(self._rest) if self._is_plain else self._piece(self._rest, self._gap))

    def _plain(self, text: str) -> list[SegmentLine]:
        words = Text(text.expandtabs(4), self._console.palette.text, end="")
        return self._with_bar(self._console.lines(words, self._width))

    def _piece(self, source: str, gap: bool) -> list[SegmentLine]:
        lines = self._console.lines(prose(source, self._console.palette), self._width)
        return self._with_bar(([[]] if gap and self._drawn else []) + lines)

    def _with_bar(self, lines: list[SegmentLine]) -> list[SegmentLine]:
        bar = Segment(f"{MODEL_BAR} ", self._console.palette.model_bar)
        return [[bar, *line] for line in lines]


def _split_long_lines(text: str) -> list[str]:
    """Split a text into lines, at least one. Breaks depend only on the preceding text."""
    lines = []
    for line in text.split("\n"):
        start = 0
        while len(line) - start > _MAX_LINE_CHARS:
            blank = line.rfind(" ", start, start + _MAX_LINE_CHARS)
            end = blank + 1 if blank >= 0 else start + _MAX_LINE_CHARS
            lines.append(line[start:end])
            start = end
        lines.append(line[start:])
    return lines


def _user_lines(text: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette = console.palette
    words = Text(sanitised(_middle_cut(text)).expandtabs(4).strip("\n"), palette.text, end="")
    lines = []
    for line in console.lines(words, max(1, width - MARGIN - 1)):
        padded = Segment.adjust_line_length([Segment(f"{USER_BAR} ", palette.user_bar), *line], width)
        lines.append(list(Segment.apply_style(padded, palette.user)))
    return lines


def _reasoning_lines(block: ReasoningBlock, opened: bool, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette = console.palette
    words = sanitised(block.text).strip()
    if opened:
        return [
            _line(Text("✻ thought", palette.dim), width, console),
            *_quote_lines(words, palette.comment, width, console),
        ]
    shown = words.rsplit("\n", 1)[-1] if block.streaming else words.split("\n", 1)[0]
    title = Text.assemble(("✻ ", palette.dim), (sanitised_line(shown), palette.comment), end="")
    return [_line(title, width, console)]


def _summary(text: str, opened: bool, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette = console.palette
    title = _line(
        Text.assemble(("≋ ", palette.accent), ("earlier conversation, summarised", palette.dim)), width, console
    )
    return [title, *(_quote_lines(sanitised(text).strip(), palette.dim, width, console) if opened else [])]


def _earlier(messages: int, problem: str, palette: Palette) -> Text:
    how = (problem, palette.bad) if problem else ("scroll up, or Enter here, to read them", palette.dim)
    return Text.assemble(("≋ ", palette.accent), (f"{pluralize(messages, 'earlier message')}  ", palette.dim), how)


def _note(mark: str, text: str, style: Style, ink: TextStyle, width: int, console: PaletteConsole) -> list[SegmentLine]:
    words = styled_line(parse_inline_code(sanitised(_middle_cut(text)).expandtabs(4).strip("\n"), ink), console.palette)
    lines = console.lines(words, max(1, width - MARGIN))
    return [[Segment(f"{mark} " if index == 0 else "  ", style), *line] for index, line in enumerate(lines)]


def _receipt(block: Compaction, opened: bool, width: int, console: PaletteConsole) -> list[SegmentLine]:
    lines = [_receipt_line(receipts.title_of(block), width, console)]
    if not opened:
        return lines
    palette = console.palette
    for weight, text in receipts.details_of(block):
        ink = palette.text if weight == "head" else palette.dim
        lines += _quote_lines(sanitised_line(text), ink, width, console, wrap=weight == "head")
    return lines


def _receipt_line(text: str, width: int, console: PaletteConsole) -> SegmentLine:
    palette = console.palette
    return _line(Text.assemble(("≋ ", palette.accent), (sanitised_line(text), palette.dim)), width, console)


def _call(block: Call, detail: Detail, width: int, console: PaletteConsole) -> list[SegmentLine]:
    palette, opened = console.palette, detail == "full"
    diff = diff_of(block) if block.status in ("asking", "running", "done") or opened else ""
    shown = len(last_printed(block)) if detail == "normal" and not diff else 0
    lines = [_line(_call_title(block, diff, width, palette, shown), width, console)]
    if block.name == PLAN:
        lines += _plan(block, opened, width, console) if detail != "compact" else []
    elif opened:
        return lines + _call_details(block, diff, width, console)
    if block.status == "running" and block.tail.strip():
        return lines + _printed_so_far(block.tail, width, console)
    said, is_printed = few_lines(block)
    if not said and detail == "normal" and block.status == "done" and block.name != PLAN:
        return lines + _call_work(block, diff, width, console)
    drawn = _quote_lines("\n".join(said), palette.dim, width, console, wrap=not is_printed) if said else []
    return lines + (drawn if is_printed else drawn[:MAX_FAILURE_LINES])


def _plan(block: Call, opened: bool, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """The plan that a call submits; a long one is cut until expanded."""
    plan = text_of(block)
    drawn = [line[1:] for line in AnswerPainter(width - MARGIN, console).draw(plan)]  # without the margin
    if not opened and len(drawn) > _PLAN_LINES:
        more = Text(f"… {pluralize(len(drawn) - _PLAN_LINES, 'more line')}", console.palette.dim)
        drawn = [*drawn[:_PLAN_LINES], _line(more, max(1, width - MARGIN - 2), console)]
    return _with_rule(drawn, console.palette)


def _call_work(block: Call, diff: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """The result of a successful call: a short diff, the to-do list or the end of its output."""
    if diff:
        return _with_rule(_short_diff(diff, file_of(block), max(1, width - MARGIN - 2), console), console.palette)
    if block.name == "todo":
        listed = clipped_text(short_list(items_of(block), _TODO_ITEMS), console.palette)
        return _with_rule(console.lines(listed, max(1, width - MARGIN - 2)), console.palette) if listed else []
    said = "\n".join(line[:_MAX_LINE_CHARS] for line in last_printed(block))
    return _quote_lines(said, console.palette.dim, width, console, wrap=False) if said else []


def paint_lookups(lookups: LookupGroup, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """Consecutive lookups as one line."""
    palette = console.palette
    said, which = lookup_summary(lookups)
    mark, ink = _mark("running" if any(call.status == "running" for call in lookups.calls) else "done", palette)
    title = Text.assemble((f"{mark} ", ink), (said, palette.text), (f"  {which}", palette.dim), end="")
    return [_line(title, width, console)]


def _call_title(block: Call, diff: str, width: int, palette: Palette, shown: int = 0) -> Text:
    """Mark, name, argument and outcome. The argument is cut so that the outcome always fits. `shown`: output lines
    shown below."""
    name, _, subject = title_of(block.name, block.arguments).partition("  ")
    mark, ink = _mark(block.status, palette)
    title = Text.assemble((f"{mark} ", ink), (name, palette.strong), end="")
    if subject:
        title.append(f"  {subject}", palette.text)
    outcome = outcome_of(block, diff, shown)
    if not outcome:
        return title
    title.truncate(max(1, width - cell_len(outcome) - 2), overflow="ellipsis")
    return title.append(f"  {outcome}", palette.dim)


def _mark(status: CallStatus, palette: Palette) -> tuple[str, Style]:
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
    inner = max(1, width - MARGIN - 2)
    lines: list[SegmentLine] = []
    command = command_of(block.arguments)
    if command:
        lines += _with_rule(console.lines(highlight_code(command, "bash", palette), inner), palette)
    elif diff:
        lines += _with_rule(_diff_lines(diff, file_of(block), inner, console), palette)
    elif block.name == "todo":
        lines += _with_rule(console.lines(clipped_text(todo_lines(items_of(block)), palette), inner), palette)
    elif block.arguments:
        lines += _quote_lines(_middle_cut("\n".join(argument_lines(block.arguments))), palette.text, width, console)
    said = _middle_cut(block.text or block.tail)
    if diff and block.status == "done":  # the diff says the rest
        said = "\n".join(block.problems.lines) if block.problems else ""
    if said.strip():
        lines += _with_rule([[]], palette) if lines else []
        lines += _quote_lines(said.strip("\n"), palette.dim, width, console)
    if block.changed:
        lines += _quote_lines("changed " + ", ".join(block.changed), palette.dim, width, console)
    return lines


def _short_diff(diff: str, name: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """A screenful of a diff, without the file name if the call's title has it."""
    most = max(4, int(console.height * _SCREENFUL))
    files = tuple(replace(file, parts=tuple(map(_without_long_lines, file.parts))) for file in files_of(diff))
    files = tuple(map(without_blank_ends, files))
    layout = without_name(layout_of(files, most=most, name=name))
    return _drawn_lines(RenderedDiff(layout, width, console), most + 1, "", width, console)


def _without_long_lines(part: Hunk | Remark) -> Hunk | Remark:
    if isinstance(part, Remark) or all(len(line.text) <= _MAX_SHORT_DIFF_CHARS for line in part.lines):
        return part
    cut = (
        line if len(line.text) <= _MAX_SHORT_DIFF_CHARS else replace(line, text=f"{line.text[:_MAX_SHORT_DIFF_CHARS]}…")
        for line in part.lines
    )
    return replace(part, lines=tuple(cut))


def _diff_lines(diff: str, name: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """The start of a diff, with a note on what is left out."""
    layout = layout_of(files_of(diff), width=width, most=_OPEN_LINES, name=name, how=_WHERE_ALL_IS)
    return _drawn_lines(RenderedDiff(layout, width, console), _OPEN_ROWS, _WHERE_ALL_IS, width, console)


def _drawn_lines(drawn: RenderedDiff, most: int, how: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    lines = [drawn.line(y) for y in range(min(drawn.count, most))]
    if drawn.count > most:
        left_out = drawn.count - most
        rest = f"{pluralize(left_out, 'more line')} of the screen {'is' if left_out == 1 else 'are'}"
        lines.append(_line(Text(f"… {rest} not shown{how}", console.palette.dim), width, console))
    return lines


def _printed_so_far(tail: str, width: int, console: PaletteConsole) -> list[SegmentLine]:
    """The last output lines of a running command, and a mark for earlier ones."""
    most = max(3, min(_TAIL_LINES, console.height // 4))
    said = tail.rstrip("\n").split("\n")
    earlier = _quote_lines("…", console.palette.dim, width, console) if len(said) > most else []
    return earlier + _quote_lines("\n".join(said[-most:]), console.palette.text, width, console, wrap=False)


def _middle_cut(text: str) -> str:
    """The text, without its middle if it is too long."""
    if len(text) > _OPEN_CHARACTERS:
        half = _OPEN_CHARACTERS // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half:,} characters …\n{text[-half:]}"
    lines = text.split("\n")
    if len(lines) <= _OPEN_LINES:
        return text
    half = _OPEN_LINES // 2
    return "\n".join((*lines[:half], f"… {pluralize(len(lines) - 2 * half, 'line')} …", *lines[-half:]))


def _quote_lines(text: str, style: Style, width: int, console: PaletteConsole, wrap: bool = True) -> list[SegmentLine]:
    """Text beside a thin rule, wrapped, or cut at the edge."""
    inner = max(1, width - MARGIN - 2)
    words = Text(sanitised(text).expandtabs(4), style, end="")
    if not wrap:
        words.no_wrap, words.overflow = True, "ellipsis"
    return _with_rule(console.lines(words, inner), console.palette)


def _with_rule(lines: list[SegmentLine], palette: Palette) -> list[SegmentLine]:
    return [[Segment("  │ ", palette.rule), *line] for line in lines]


def _line(text: Text, width: int, console: PaletteConsole) -> SegmentLine:
    """One line, cut at the edge."""
    text = text.copy()
    text.truncate(max(1, width), overflow="ellipsis")
    return console.lines(text, width)[0]
