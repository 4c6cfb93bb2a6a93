"""The tree of a session's messages, as lines."""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.cells import cell_len

from ebbtide.agent.archive.tree import Tree, TreeRow, changed_since
from ebbtide.tools.outputs.extent import join_limited, pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import age
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow

KEYS = "Enter goes back to before it  f brings files back  b does both  o opens that branch  Esc closes"
FILES = "Files stay as they are now, unless you bring them back, too."
MAX_LISTED_FILES, MAX_MESSAGE_LINES, MAX_MESSAGE_CHARS = 8, 6, 200


def tree_panel(tree: Tree, rows: Sequence[TreeRow], now: float) -> Panel:
    """The user's messages of a session and its forks, by number. `now` is in Unix seconds."""
    forks = len(tree.branches) - 1
    told = pluralize(len(rows), "message") + (f", {pluralize(forks, 'fork')}" if forks else "")
    return Panel(
        "rewind",
        ((("Rewind  ", "strong"), (told, "dim")),),
        tuple(
            PanelRow(
                str(at), partial(tree_line, row, now=now), in_words(row, now), about=partial(about_lines, tree, row)
            )
            for at, row in enumerate(rows)
        ),
        KEYS,
        plain_head=f"Go back to before one of your messages, in a fork, the newest first. {FILES}",
        actions=(
            PanelAction(("enter",), "rewind"),
            PanelAction(("f",), "files"),
            PanelAction(("b",), "both"),
            PanelAction(("o",), "open"),
        ),
        search="",
        mark=str(max((at for at, row in enumerate(rows) if row.is_on_path), default=0)),
        is_newest_last=True,
        is_guarded=True,
    )


def tree_line(row: TreeRow, width: int, now: float) -> Line:
    """`now` is in Unix seconds."""
    after = f"  {age(now - row.message.at).removesuffix(' ago'):>7}"
    fork = "↳ " if row.is_first else "  "
    depth = min(row.depth, max(0, width // 8))
    before = f"{'│ ' * depth}{fork}"
    room = max(4, width - cell_len(before) - len(after) - 2)
    text = " ".join(sanitised_line(row.message.text[: 4 * width]).split())
    ink: TextStyle = "text" if row.is_on_path else "dim"
    mark: tuple[str, TextStyle] = ("● ", "good") if row.is_on_path else ("○ ", "dim")
    return ((before, "accent"), mark, (fit_width(text, room), ink), (after, "dim"))


def in_words(row: TreeRow, now: float) -> str:
    """A row in one line, for line mode."""
    text = " ".join(sanitised_line(row.message.text[:MAX_MESSAGE_CHARS]).split())
    return f"{text}, {age(now - row.message.at)}{'' if row.is_on_path else ', in another branch'}"


def about_lines(tree: Tree, row: TreeRow) -> tuple[Line, ...]:
    """The message, and the files changed since, which stay changed."""
    return tuple(_about(tree, row))


def _about(tree: Tree, row: TreeRow) -> Iterator[Line]:
    lines = sanitised(row.message.text).splitlines()
    for line in lines[:MAX_MESSAGE_LINES]:
        yield ((line, "text"),)
    if len(lines) > MAX_MESSAGE_LINES:
        yield ((f"… {pluralize(len(lines) - MAX_MESSAGE_LINES, 'more line')}", "dim"),)
    yield ()
    yield from file_lines(changed_since(tree, row.message))


def file_lines(files: Sequence[str]) -> Iterator[Line]:
    yield ((FILES, "warn"),)
    if not files:
        yield (("No tool for files has changed any since; what commands have changed is not known.", "dim"),)
        return
    yield ((f"{pluralize(len(files), 'file')} changed since, besides what commands have changed:", "dim"),)
    for path in files[:MAX_LISTED_FILES]:
        yield ((f"  {sanitised_line(path)}", "text"),)
    if len(files) > MAX_LISTED_FILES:
        yield ((f"  … {len(files) - MAX_LISTED_FILES} more", "dim"),)


def rewound(files: Sequence[str]) -> str:
    """The message after rewinding."""
    told = (
        "your message is in the prompt again; the conversation goes on before it, and `/rewind` shows the other branch"
    )
    if not files:
        return told
    return (
        f"{told}. Files are as they were: {join_limited([*map(sanitised_line, files)], MAX_LISTED_FILES)} changed since"
    )
