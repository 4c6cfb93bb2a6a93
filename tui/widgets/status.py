"""The line at the bottom. It shows numbers and what goes on, and asks nobody for them."""

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from tui.blocks import View
from tui.numbers import dollars, seconds, tokens
from tui.palette import Palette, palette_of
from tui.sanitise import visible_line


@dataclass(frozen=True, slots=True)
class Shown:
    view: View
    elapsed: int = 0
    """Seconds since the turn began, while busy."""
    hint: str = ""
    """Said instead of what goes on, for a moment."""


class StatusLine(Widget):
    """Left what goes on, right model, context and cost. Where it is narrow, the right side gives way first."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = Shown(View())

    def show(self, shown: Shown) -> None:
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def render(self) -> Text:
        return status_text(self._shown, self.size.width, palette_of(self.app.theme_variables))


def status_text(shown: Shown, width: int, palette: Palette) -> Text:
    left = _left(shown, palette)
    for parts in (_right(shown.view), _right(shown.view)[1:], _right(shown.view)[2:], ()):
        right = "  ".join(parts)
        space = width - left.cell_len - cell_len(right)
        if space >= 2 or not parts:
            break
    left.append(" " * max(0, space))
    left.append(right, palette.dim)
    left.truncate(max(1, width), overflow="ellipsis")
    return left


def _left(shown: Shown, palette: Palette) -> Text:
    view = shown.view
    text = Text(no_wrap=True, end="")
    if shown.hint:
        return text.append(visible_line(shown.hint), palette.warn)
    if not view.busy:
        return text.append(visible_line(view.mode), palette.dim)
    if view.asked:
        return text.append("● waits for your answer", palette.warn)
    text.append("● ", palette.accent)
    text.append(visible_line(view.activity or "working"), palette.text)
    return text.append(f"  {seconds(shown.elapsed)}  Esc interrupts", palette.dim)


def _right(view: View) -> tuple[str, ...]:
    """The least important first."""
    if view.window:
        context = f"{tokens(view.used)} of {tokens(view.window)} ({100 * view.used / view.window:.0f}%)"
    else:
        context = f"{tokens(view.used)} tokens" if view.used else "context —"
    return visible_line(view.model), dollars(view.cost), context
