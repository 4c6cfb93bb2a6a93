"""What a word in the prompt may become, as a list above it. It shows candidates and knows nothing of what they do."""

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.candidates import Candidate
from tui.palette import palette_of
from tui.sanitise import visible_line


class Completions(OptionList, can_focus=False):
    """Shown while there are candidates. The prompt keeps the focus and moves the highlight."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, compact=True, markup=False)
        self.display = False
        self._candidates: tuple[Candidate, ...] = ()
        self.is_behind = False
        """What is shown is for an earlier text: none of it is taken until there is news."""

    def offer(self, candidates: Sequence[Candidate]) -> None:
        self.is_behind = False
        if tuple(candidates) == self._candidates:
            return
        self._candidates = tuple(candidates)
        self.clear_options()
        palette = palette_of(self.app.theme_variables)
        width = max((len(candidate.label) for candidate in candidates), default=0)
        for candidate in candidates:
            label = visible_line(candidate.label).ljust(width + 2)
            self.add_option(Option(Text.assemble(label, (visible_line(candidate.help), palette.dim))))
        self.display = bool(candidates)
        if candidates:
            self.highlighted = 0

    @property
    def chosen(self) -> Candidate | None:
        if not self.display or self.highlighted is None or self.is_behind:
            return None
        return self._candidates[self.highlighted]

    def move(self, step: int) -> None:
        if self.highlighted is not None:
            self.highlighted = (self.highlighted + step) % len(self._candidates)
