"""The pieces of code in a text of Markdown. Pure."""

import re

from tools.lazy import dataclass, regex

SHELLS = ("bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "powershell", "cmd", "bat")
_FENCE = regex(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands in a fence."""

    language: str
    text: str

    @property
    def is_command(self) -> bool:
        return self.language in SHELLS


def pieces_in(text: str) -> tuple[Piece, ...]:
    return tuple(Piece(found[2].lower(), found[3]) for found in _FENCE.finditer(text))
