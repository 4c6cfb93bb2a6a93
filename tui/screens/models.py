"""The models to choose from. The screen knows lines; what a model is asked for is not its own."""

from collections.abc import Callable, Sequence

from agent.providers.choices import ModelChoice
from tui.screens.finder import Finder
from tui.text.inks import Line
from tui.text.sanitise import visible_line
from tui.view.list_entry import ListEntry
from tui.view.models import HEADING, lines_about, model_entries


class ModelsScreen(Finder[str]):
    """Gives the name of a model, which may be one that is not in the list; empty when none was chosen."""

    KEYS = "Enter goes on with it   PROVIDER/NAME may be typed   Esc leaves"

    def __init__(
        self,
        offers: Sequence[ModelChoice],
        offer_of: Callable[[str], ModelChoice],
        current: str,
        used: int,
        words: str = "",
    ) -> None:
        """`used`: tokens of the conversation. `offer_of`: what is known of a model that is not in the list."""
        self._listed = model_entries(offers, current, used)
        super().__init__(HEADING, self._listed, "Not in the list: write it as PROVIDER/NAME.", words)
        self._offer_of = offer_of
        self._current = current
        self._used = used

    def first(self, entries: Sequence[ListEntry]) -> int:
        return next((index for index, entry in enumerate(entries) if entry.value == self._current), 0)

    def besides(self, words: str) -> Sequence[ListEntry]:
        provider, slash, name = words.partition("/")
        if not (provider and slash and name) or any(words == listed.value for listed in self._listed):
            return ()
        about = lines_about(self._offer_of(words), self._current, self._used)
        line: Line = ((f"  {visible_line(words)}", "text"), ("  as it is written", "dim"))
        return (ListEntry(words, line, words, about),)

    def taken(self, entry: ListEntry | None) -> None:
        if entry is not None:
            self.dismiss(entry.value)

    def left(self) -> None:
        self.dismiss("")
