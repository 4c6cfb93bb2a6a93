"""Renders Markdown as terminal lines."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote

from markdown_it.token import Token
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    HorizontalRule,
    ListItem,
    Markdown,
    MarkdownElement,
    TableDataElement,
    TableElement,
)
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax, SyntaxTheme
from rich.text import Text

from ebbtide.tui.render.markdown import PARSER
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.styles import Palette

if TYPE_CHECKING:  # a type only
    from pygments.lexer import Lexer  # type: ignore[import-untyped]  # without type hints

CHECKBOXES = ("☐", "☑")
"""Checkboxes for open tasks and completed tasks."""
_TASK_META_KEY = "task_done"
_CHECKBOX = re.compile(r"\[([ xX])\]\s+")
_COLUMN_SEPARATOR = " │ "

_SHELL_LANGUAGES = ("bash", "sh", "shell", "zsh", "console")


def markdown_renderable(
    source: str, palette: Palette, least_widths: tuple[int, ...] = (), *, has_table_header: bool = True
) -> "ThemedMarkdown":
    """Create a renderable for a piece of Markdown, removing control characters. If it is a part of a table,
    `least_widths` are those of the columns in the parts above, and `has_table_header` is off if they show the
    header."""
    return ThemedMarkdown(sanitise(source), palette, least_widths, has_table_header=has_table_header)


def highlight_code(code: str, language: str, palette: Palette) -> Text:
    """Highlight code. Code in an unknown language stays plain text."""
    text = Text(no_wrap=True).append_tokens(_highlighted_tokens(code, language, palette))
    text.rstrip()
    return text


def _highlighted_tokens(code: str, language: str, palette: Palette) -> Iterator[tuple[str, Style]]:
    code, lexer = sanitise(code).expandtabs(4), _lexer_for_language(language or "text")
    if lexer is None:
        yield code, palette.text
        return
    colors = CodeColors(palette, language)
    for token_type, token in lexer.get_tokens(code):
        yield token, colors.get_style_for_token(token_type)


@lru_cache(maxsize=32)
def _lexer_for_language(language: str) -> "Lexer | None":
    return Syntax("", language).lexer


@lru_cache(maxsize=256)
def language_for_file_name(name: str) -> str:
    """Determine a file's language for `highlight_code` from its name; empty if unknown."""
    # Not Pygments' own function, which reads the metadata of all installed packages and compiles a thousand patterns.
    # Deferred, because the import loads a list of all languages. Pygments has no type hints.
    from pygments.lexers import find_lexer_class, get_all_lexers  # type: ignore[import-untyped]  # noqa: PLC0415

    matches = [
        (language, "*" not in pattern)
        for language, _, patterns, _ in get_all_lexers(plugins=False)
        for pattern in patterns
        if _matches_pattern(name, pattern)
    ]
    lexer_classes = [(find_lexer_class(language), is_exact) for language, is_exact in matches]
    ranked = sorted((lexer.priority + is_exact / 2, lexer.__name__, lexer.aliases) for lexer, is_exact in lexer_classes)
    return str(ranked[-1][2][0]) if ranked and ranked[-1][2] else ""


def _matches_pattern(name: str, pattern: str) -> bool:
    """Whether a file name matches a pattern. Nearly all patterns are names or suffixes."""
    if _has_wildcard(pattern[1:]):
        return fnmatchcase(name, pattern)
    return name.endswith(pattern[1:]) if pattern[0] == "*" else name == pattern


def _has_wildcard(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


class CodeColors(SyntaxTheme):
    """Syntax colours taken from the theme's palette."""

    def __init__(self, palette: Palette, language: str = "") -> None:
        self._styles: dict[tuple[str, ...], Style] = {
            ("Comment",): palette.comment,
            ("Keyword",): palette.keyword,
            ("Operator", "Word"): palette.keyword,
            ("Literal",): palette.literal,
            ("Name", "Function"): palette.name,
            ("Name", "Class"): palette.name,
            ("Name", "Decorator"): palette.name,
            ("Name", "Tag"): palette.keyword,
            ("Generic", "Inserted"): palette.good,
            ("Generic", "Deleted"): palette.bad,
            ("Generic", "Heading"): palette.strong,
        }
        if language in _SHELL_LANGUAGES:  # most digits in a command line are not numbers: `2>&1`, `-n5`
            self._styles["Literal", "Number"] = palette.text
        self._text = palette.text

    def get_style_for_token(self, token_type: tuple[str, ...]) -> Style:
        style = self._styles.get(token_type)
        if style is None:
            token_types = (tuple(token_type[:length]) for length in range(len(token_type), 0, -1))
            style = next((self._styles[prefix] for prefix in token_types if prefix in self._styles), self._text)
            self._styles[token_type] = style
        return style

    def get_background_style(self) -> Style:
        return Style.null()


class _CodeBlock(CodeBlock):
    """A highlighted code block with a thin line on the left and no background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        palette = _get_palette(console)
        # Not a `Text`: splitting one into lines takes longer than highlighting it.
        tokens = _highlighted_tokens(str(self.text).rstrip("\n"), self.lexer_name, palette)
        lines = [*Segment.split_lines(Segment(token, style) for token, style in tokens)]
        inner_width = max(1, options.max_width - 2)
        yield from _with_left_border(
            [Segment.adjust_line_length(line, inner_width, pad=False) for line in lines], palette.border
        )


class _Heading(Heading):
    """A heading. All levels start at the left edge."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _HorizontalRule(HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("─" * min(24, options.max_width), console.get_style("markdown.hr"))


class _ListItem(ListItem):
    """A list item. Tasks have a checkbox."""

    def __init__(self, is_done: bool | None) -> None:
        super().__init__()
        self._is_done = is_done

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> "_ListItem":
        return cls(token.meta.get(_TASK_META_KEY))

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._is_done is None:
            yield from self._render_after_bullet(" • ", console.get_style("markdown.item.bullet"), console, options)
        else:
            box, palette = CHECKBOXES[self._is_done], _get_palette(console)
            yield from self._render_after_bullet(
                f" {box}  ", palette.good if self._is_done else palette.dim, console, options
            )

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        numeral = f"{number}.".rjust(len(str(last_number)) + 2) + " "
        if self._is_done is not None:
            numeral += f" {CHECKBOXES[self._is_done]}  "
        yield from self._render_after_bullet(numeral, console.get_style("markdown.item.number"), console, options)

    def _render_after_bullet(
        self, bullet: str, style: Style, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        inner_options = options.update(width=max(1, options.max_width - len(bullet)))
        for index, line in enumerate(console.render_lines(self.elements, inner_options, style=self.style)):
            yield Segment(" " * len(bullet) if index else bullet, style)
            yield from line
            yield Segment.line()


class _Table(TableElement):
    """A table with thin lines below its header and between columns. Not Rich's, which takes several times as long."""

    def __init__(self, markdown: "ThemedMarkdown") -> None:
        super().__init__()
        self._markdown = markdown

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> "_Table":
        assert isinstance(markdown, ThemedMarkdown)
        return cls(markdown)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = self.header.row.cells if self.header is not None and self.header.row is not None else []
        rows = [row.cells for row in self.body.rows] if self.body is not None else []
        widths = fit_columns(
            [max(cell_len(cell.content.plain) for cell in column) for column in zip(header, *rows, strict=True)],
            self._markdown.least_widths,
            options.max_width,
        )
        border = console.get_style("markdown.table.border")
        if self._markdown.has_table_header:
            for cell in header:
                cell.content.stylize("markdown.table.header")
            yield from _table_row(header, widths, border, console)
            yield Segment("─┼─".join("─" * width for width in widths), border)
            yield Segment.line()
        for row in rows:
            yield from _table_row(row, widths, border, console)
        self._markdown.table_widths = widths


def fit_columns(widths: Sequence[int], least_widths: Sequence[int], max_width: int) -> tuple[int, ...]:
    """Decide how wide the columns of a table are, given the widths of their longest cells. If they do not fit, the
    widest columns become narrower."""
    widths = [max(1, *pair) for pair in zip_longest(widths, least_widths, fillvalue=0)]
    available = max(len(widths), max_width - (len(widths) - 1) * len(_COLUMN_SEPARATOR))
    while (excess := sum(widths) - available) > 0:
        widest = max(widths)
        indexes = [index for index, width in enumerate(widths) if width == widest]
        next_width = max((width for width in widths if width < widest), default=1)
        reduction = min(widest - next_width, max(1, excess // len(indexes)))
        for index in indexes[:excess]:
            widths[index] -= reduction
    return tuple(widths)


def _table_row(
    cells: Sequence[TableDataElement], widths: Sequence[int], border: Style, console: Console
) -> Iterator[Segment]:
    columns = [_cell_lines(cell, width, console) for cell, width in zip(cells, widths, strict=True)]
    for lines in zip_longest(*columns):
        for index, (line, width) in enumerate(zip(lines, widths, strict=True)):
            if index:
                yield Segment(_COLUMN_SEPARATOR, border)
            yield from line or [Segment(" " * width)]
        yield Segment.line()


def _cell_lines(cell: TableDataElement, width: int, console: Console) -> list[list[Segment]]:
    """Render a cell as lines of exactly `width` cells."""
    text = cell.content
    is_short = "\t" not in text.plain and cell_len(text.plain) <= width
    lines = [text] if is_short else text.wrap(console, width, overflow="ellipsis")
    return [_aligned(list(line.render(console)), cell.justify, width) for line in lines]


def _aligned(line: list[Segment], justify: JustifyMethod, width: int) -> list[Segment]:
    line = Segment.adjust_line_length(line, width, pad=False)
    space = width - Segment.get_line_length(line)
    left = {"right": space, "center": space // 2}.get(justify, 0)
    return [*([Segment(" " * left)] if left else []), *line, *([Segment(" " * (space - left))] if space > left else [])]


def _with_left_border(lines: list[list[Segment]], style: Style) -> Iterator[Segment]:
    for line in lines:
        yield Segment("│ ", style)
        yield from line
        yield Segment.line()


def _get_palette(console: Console) -> Palette:
    assert isinstance(console, PaletteConsole)
    return console.palette


class PaletteConsole(Console):
    """A console that renders to memory with one palette. Each thread needs its own."""

    def __init__(self, palette: Palette, height: int = 24) -> None:
        """`height`: height of the terminal, which limits how much of long content is shown."""
        super().__init__(
            width=80,
            height=height,
            color_system="truecolor",
            force_terminal=True,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
            theme=palette.markdown_theme(),
            _environ={},
        )
        self.palette = palette

    def render_to_lines(self, renderable: Text | Markdown, width: int) -> list[list[Segment]]:
        """Render to lines of segments at this width, without leading or trailing blank lines."""
        options = self.options.update(width=max(1, width), height=None)
        lines = self.render_lines(renderable, options, pad=False)
        first_index = next((index for index, line in enumerate(lines) if not _is_blank(line)), 0)
        end_index = next(
            (index for index in range(len(lines), first_index, -1) if not _is_blank(lines[index - 1])), first_index
        )
        return lines[first_index : max(end_index, first_index + 1)]


def _is_blank(line: list[Segment]) -> bool:
    return all(not segment.text or segment.text.isspace() for segment in line)


def _with_marked_tasks(tokens: list[Token]) -> list[Token]:
    """Mark list items that start with `[ ]` or `[x]` as tasks."""
    for item, paragraph, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if item.type == "list_item_open" and paragraph.type == "paragraph_open" and inline.children:
            first_token = inline.children[0]
            match = _CHECKBOX.match(first_token.content) if first_token.type == "text" else None
            if match is not None:
                item.meta[_TASK_META_KEY] = match.group(1) != " "
                first_token.content = first_token.content[match.end() :]
    return tokens


def _with_visible_urls(tokens: list[Token]) -> list[Token]:
    """Show the URL after a link's text if they differ, so that the target is visible. Only web links can be
    followed."""
    for token in tokens:
        if token.children:
            token.children = list(_insert_urls(token.children))
    return tokens


def _insert_urls(tokens: list[Token]) -> Iterator[Token]:
    url, link_text = "", ""
    for token in tokens:
        match token.type:
            case "link_open":
                url, link_text = str(token.attrs.get("href", "")), ""
                if not url.startswith(("https://", "http://")):
                    token.attrs["href"] = ""
            case "text" | "code_inline":
                link_text += token.content
        yield token
        if token.type == "link_close" and unquote(url) != unquote(link_text):
            yield Token("text", "", 0, content=f" ({url})")


class ThemedMarkdown(Markdown):
    """A piece of Markdown in the colours of a palette."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "heading_open": _Heading,
        "hr": _HorizontalRule,
        "list_item_open": _ListItem,
        "table_open": _Table,
    }

    def __init__(self, markup: str, palette: Palette, least_widths: tuple[int, ...], *, has_table_header: bool) -> None:
        # `super().__init__` is not called: it builds a parser, which takes longer than rendering a paragraph.
        self.markup = markup
        self.parsed = _with_marked_tasks(_with_visible_urls(PARSER.parse(markup)))
        self.style = palette.text
        self.hyperlinks = True
        self.justify = None
        self.code_theme = self.inline_code_theme = ""
        self.inline_code_lexer = None
        self.least_widths, self.has_table_header = least_widths, has_table_header
        self.table_widths: tuple[int, ...] = ()
        """Widths of the columns of the last table. Set while rendering."""
