"""The list of completions above the prompt."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from ebbtide.tui.prompt.completion import PromptCompletion
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import strip_backticks
from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.widgets.listing import Listing


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
            candidate = self.candidates[index]
            label, description = sanitise_line(candidate.label), strip_backticks(sanitise_line(candidate.description))
            dim = get_palette(self.app.theme_variables).dim
            text = Text.assemble(label, " " * (label_width - cell_len(label)), (description, dim), end="")
            text.truncate(max(1, width), overflow="ellipsis")
            return text

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
