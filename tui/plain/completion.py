"""What may be typed next, for lines that can be edited: commands, resources of servers, files."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tui.plain.reader import Offered
from tui.prompt.completion import mentioned, with_files
from tui.session.completion import Offers
from tui.text.sanitise import visible_line

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from agent.session import Session


class PlainOffering:
    """For the session that `session` gives; there may be none yet."""

    def __init__(self, session: "Callable[[], Session | None]") -> None:
        self._offers = Offers(session)

    def texts(self, before: str) -> Sequence[Offered]:
        return [(each.insert, visible_line(each.label)) for each in self._offers.candidates(before)]

    def is_file(self, before: str) -> bool:
        return mentioned(before) is not None and self._offers.files is not None

    async def files(self, before: str, behind: str) -> Sequence[Offered]:
        """Resources of servers, and the files that begin as it is written, or else the likeliest."""
        written, files = mentioned(before), self._offers.files
        paths: tuple[str, ...] = ()
        if written is not None and files is not None:
            async for found in files.matching(written):
                paths = found
        exact = tuple(path for path in paths if path.lower().startswith((written or "").lower()))
        named = with_files(before, behind, exact or paths)
        return [*self.texts(before), *((each.insert, visible_line(each.label)) for each in named)]
