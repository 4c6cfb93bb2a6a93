"""What is written of a picture shows the same as all of it would: two terminals are compared, cell by cell."""

import pyte
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from ebbtide.tui.terminal.cells import BLANK_CELL, put_segments
from ebbtide.tui.terminal.display import Display
from tests.kit.pty_terminal import seen

WIDTH, HEIGHT = 24, 9
STYLES = [
    None,
    Style(color="red"),
    Style(color="#102030", bgcolor="#405060", bold=True),
    Style(bgcolor="#405060", dim=True),
    Style(color="#102030", bgcolor="#405060"),
    Style(reverse=True, color="color(200)"),
    Style(underline=True, italic=True),
    Style(strike=True, bgcolor="bright_blue"),
]
CONSOLE = Console(color_system="truecolor", force_terminal=True, _environ={})


class Both:
    """A terminal that gets all of every picture, and one that gets what has changed."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        self.screens = [pyte.Screen(width, height), pyte.Screen(width, height)]
        self._all, self._changes = (pyte.Stream(screen) for screen in self.screens)
        self._all.feed("\x1b[?7l")
        self._changes.feed("\x1b[?7l")
        self.written: list[str] = []
        self.display = Display(self.written.append, lambda: None)

    def show(self, update: LayoutUpdate | ChopsUpdate, cursor: tuple[int, int] = (0, 0)) -> None:
        self._all.feed(update.render_segments(CONSOLE) + f"\x1b[{cursor[1] + 1};{cursor[0] + 1}H")
        self.display.show(update, cursor, ColorSystem.TRUECOLOR, is_synchronized=False)

    def take(self) -> None:
        """Takes what was written, and then what the terminal was too busy for."""
        for _ in range(2):
            self._changes.feed("".join(self.written))
            self.written.clear()
            self.display.mark_idle()
            self.display.draw()

    def look_the_same(self) -> bool:
        theirs, ours = self.screens
        cells = [
            [[seen(screen.buffer[y][x]) for x in range(screen.columns)] for y in range(screen.lines)]
            for screen in self.screens
        ]
        return cells[0] == cells[1] and (theirs.cursor.x, theirs.cursor.y) == (ours.cursor.x, ours.cursor.y)


def line(pieces: list[tuple[str, int]], width: int = WIDTH) -> Strip:
    return Strip([Segment(text, STYLES[style]) for text, style in pieces]).adjust_cell_length(width)


def picture(lines: list[Strip]) -> LayoutUpdate:
    return LayoutUpdate([[strip] for strip in lines], Region(0, 0, lines[0].cell_length, len(lines)))


NARROW = ["a", "b", " ", " ", "é", "e\u0301", "─"]
WIDE = [*NARROW, "日", "本"]
RUNS = [" " * 12, "    ", "a" * 20, "─" * 9]


def lines_of(characters: list[str]) -> st.SearchStrategy[Strip]:
    texts = st.lists(st.sampled_from(characters), max_size=9).map("".join) | st.sampled_from(RUNS)
    return st.lists(st.tuples(texts, st.integers(0, len(STYLES) - 1)), max_size=4).map(line)


PLACES = st.tuples(st.integers(0, WIDTH - 1), st.integers(0, HEIGHT - 1))


@st.composite
def pictures(draw: st.DrawFn) -> list[tuple[LayoutUpdate | ChopsUpdate, tuple[int, int]]]:
    """Pictures in turn: anew, moved by some lines, or changed in some places. No place begins or ends inside of a wide
    character."""
    is_wide = draw(st.booleans())
    line = lines_of(WIDE if is_wide else NARROW)
    lines = draw(st.lists(line, min_size=HEIGHT, max_size=HEIGHT))
    updates: list[tuple[LayoutUpdate | ChopsUpdate, tuple[int, int]]] = [(picture(lines), draw(PLACES))]
    for _ in range(draw(st.integers(1, 5))):
        match draw(st.sampled_from(["anew", "moved", "changed"])):
            case "anew":
                lines = draw(st.lists(line, min_size=HEIGHT, max_size=HEIGHT))
            case "moved":
                by = draw(st.integers(-3, 3))
                new = [draw(line) for _ in range(abs(by))]
                lines = [*lines[by:], *new] if by > 0 else [*new, *lines[: HEIGHT + by]]
            case _:
                cut = draw(st.integers(1, WIDTH - 1))
                first = 0 if is_wide else draw(st.integers(0, cut))
                last = WIDTH if is_wide else draw(st.integers(max(first, 1), WIDTH))
                changed = draw(st.dictionaries(st.integers(0, HEIGHT - 1), line, min_size=1, max_size=3))
                chops = [dict(zip((0, cut), strip.divide([cut, WIDTH]), strict=True)) for strip in lines]
                for y, strip in changed.items():
                    chops[y] = dict(zip((0, cut), strip.divide([cut, WIDTH]), strict=True))
                spans = [(y, first, last) for y in sorted(changed)]
                updates.append((ChopsUpdate(chops, spans, [[cut, WIDTH]] * HEIGHT), draw(PLACES)))
                continue
        updates.append((picture(lines), draw(PLACES)))
    return updates


@given(pictures(), st.data())
def test_what_has_changed_makes_the_same_picture_as_all_of_it(
    updates: list[tuple[LayoutUpdate | ChopsUpdate, tuple[int, int]]], data: st.DataObject
) -> None:
    """A terminal that is busy gets the last picture, and none of those before it."""
    both = Both()
    for update, cursor in updates:
        both.show(update, cursor)
        assert len(both.written) <= 1
        if data.draw(st.booleans()):
            both.take()
            assert both.look_the_same()
    if data.draw(st.booleans()):
        both.display.invalidate()
    both.take()
    assert both.look_the_same()


def test_styles_with_places_in_a_long_text_are_not_kept() -> None:
    before = Strip.render_ansi.cache_info().currsize
    for line in range(300):
        row = [BLANK_CELL] * 10
        strip = Strip([Segment("text", Style(bold=True, color="red"))]).apply_offsets(0, line)
        put_segments(row, 0, strip, ColorSystem.TRUECOLOR)
        assert row[0][1].flags == ("1",)
    assert Strip.render_ansi.cache_info().currsize == before
