"""The list of completions above the prompt."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from ebbtide.tools.lazy import regex
from ebbtide.tui.prompt.completion import PromptCompletion
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import strip_backticks
from ebbtide.tui.text.styles import Palette, get_palette
from ebbtide.tui.widgets.listing import Listing

_PHRASE_END = regex(r"; |: | \(")


class Completions(Listing, can_focus=False):
    """The list of completions. It is shown as long as there are candidates. The prompt keeps the focus and moves the
    mark."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self.candidates: tuple[PromptCompletion, ...] = ()
        self.is_outdated = False
        """Whether the candidates are for earlier text and so cannot be accepted."""

    def set_candidates(self, candidates: Sequence[PromptCompletion]) -> None:
        self.is_outdated = False
        if tuple(candidates) == self.candidates:
            return
        self.candidates = tuple(candidates)
        label_width = max((cell_len(sanitise_line(candidate.label)) for candidate in candidates), default=0) + 2

        def paint(index: int, width: int) -> Text:
            return _draw_candidate(self.candidates[index], label_width, width, get_palette(self.app.theme_variables))

        self.display = bool(candidates)
        self.show(len(self.candidates), paint)
        self.refresh(layout=True)

    @property
    def selected_candidate(self) -> PromptCompletion | None:
        if not self.candidates or self.is_outdated:
            return None
        return self.candidates[self.marked_index]

    def move_mark(self, step: int) -> None:
        """Mark the next or previous candidate, wrapping around."""
        if self.candidates:
            super().move_mark((self.marked_index + step) % len(self.candidates) - self.marked_index)


def _draw_candidate(candidate: PromptCompletion, label_width: int, width: int, palette: Palette) -> Text:
    """Draw a candidate: its label, with what was typed highlighted and the arguments dimmed, and its description."""
    label, description = sanitise_line(candidate.label), strip_backticks(sanitise_line(candidate.description))
    text = Text(label, end="")
    if label.startswith("/"):
        text.stylize(palette.dim, len(label.split()[0]))
    start = label.lower().find(candidate.matched_text.lower()) if candidate.matched_text else -1
    if start >= 0:
        text.stylize(palette.accent, start, start + len(candidate.matched_text))
    text.append(" " * (label_width - cell_len(label)))
    text.append(shorten_to_phrase(description, width - label_width), palette.dim)
    text.truncate(max(1, width), overflow="ellipsis")
    return text


def shorten_to_phrase(text: str, width: int) -> str:
    """Shorten text that is too long to its first phrases, if they fit: they end at a semicolon, a colon or a
    parenthesis."""
    if cell_len(text) <= width:
        return text
    ends = [match.start() for match in _PHRASE_END.finditer(text) if cell_len(text[: match.start()]) <= width]
    return text[: ends[-1]] if ends else text
