"""Renders Markdown as terminal lines."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar
from urllib.parse import unquote

from markdown_it.token import Token
from rich.box import Box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, ListItem, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax, SyntaxTheme
from rich.table import Table
from rich.text import Text

from ebbtide.tui.render.markdown import PARSER
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.styles import Palette

CHECKBOXES = ("☐", "☑")
"""Checkboxes for open tasks and completed tasks."""
_TASK_META_KEY = "task_done"
_CHECKBOX = re.compile(r"\[([ xX])\]\s+")
_TABLE_BOX = Box("    \n  │ \n ─┼ \n  │ \n ─┼ \n ─┼ \n  │ \n    \n")


_SHELL_LANGUAGES = ("bash", "sh", "shell", "zsh", "console")


def markdown_renderable(source: str, palette: Palette) -> Markdown:
    """Create a renderable for a piece of Markdown, removing control characters."""
    return _ThemedMarkdown(sanitise(source), palette)


def highlight_code(code: str, language: str, palette: Palette) -> Text:
    """Highlight code. Code in an unknown language stays plain text."""
    text = Syntax("", language or "text", theme=CodeColors(palette, language)).highlight(sanitise(code).expandtabs(4))
    text.rstrip()
    return text


@lru_cache(maxsize=256)
def language_for_file_name(name: str) -> str:
    """Determine a file's language for `highlight_code` from its name; empty if unknown."""
    # Deferred, because the import loads a list of all languages. Pygments has no type hints.
    from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]  # noqa: PLC0415

    lexer_class = find_lexer_class_for_filename(name)
    return str(lexer_class.aliases[0]) if lexer_class is not None and lexer_class.aliases else ""


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
        token_types = (tuple(token_type[:length]) for length in range(len(token_type), 0, -1))
        return next((self._styles[prefix] for prefix in token_types if prefix in self._styles), self._text)

    def get_background_style(self) -> Style:
        return Style.null()


class _CodeBlock(CodeBlock):
    """A highlighted code block with a thin line on the left and no background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        palette = _get_palette(console)
        code = highlight_code(str(self.text).rstrip("\n"), self.lexer_name, palette)
        inner_options = options.update(width=max(1, options.max_width - 2))
        yield from _with_left_border(console.render_lines(code, inner_options, pad=False), palette.border)


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
    """A table with thin lines below its header and between columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=_TABLE_BOX, pad_edge=False, style="markdown.table.border", show_edge=False)
        cells = self.header.row.cells if self.header is not None and self.header.row is not None else []
        for cell in cells:
            heading = cell.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(heading, justify=cell.justify)
        for row in self.body.rows if self.body is not None else []:
            table.add_row(*(cell.content for cell in row.cells))
        yield table


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


class _ThemedMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "heading_open": _Heading,
        "hr": _HorizontalRule,
        "list_item_open": _ListItem,
        "table_open": _Table,
    }

    def __init__(self, markup: str, palette: Palette) -> None:
        # `super().__init__` is not called: it builds a parser, which takes longer than rendering a paragraph.
        self.markup = markup
        self.parsed = _with_marked_tasks(_with_visible_urls(PARSER.parse(markup)))
        self.style = palette.text
        self.hyperlinks = True
        self.justify = None
        self.code_theme = self.inline_code_theme = ""
        self.inline_code_lexer = None
