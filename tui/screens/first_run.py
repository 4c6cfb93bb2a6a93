"""The first screen of somebody who has set nothing yet: what there is, what is needed, and a way on."""

from collections.abc import Sequence

from agent.providers.first_run import KeyFound
from tui.screens.finder import Finder
from tui.view.first_run import TELL, first_steps
from tui.view.list_entry import ListEntry


class FirstRunScreen(Finder[str]):
    """Gives the value of what was chosen, see `tui.view.first_run`; empty when nothing was."""

    KEYS = "Up, Down   Enter goes on   Esc leaves"

    def __init__(self, keys: Sequence[KeyFound], local: Sequence[str] | None, file: str) -> None:
        """`file`: where the choice is written."""
        said = f"  a model is to be chosen once; it is written to {file}"
        super().__init__(
            (("Welcome to Ebbtide", "strong"), (said, "dim")), first_steps(keys, local), "Nothing like it."
        )

    def taken(self, entry: ListEntry | None) -> None:
        if entry is None:
            return
        if entry.value.startswith(TELL):
            self.tell(entry.value, [(("This is to be done outside of Ebbtide first:", "warn"),)])
        else:
            self.dismiss(entry.value)

    def left(self) -> None:
        self.dismiss("")
