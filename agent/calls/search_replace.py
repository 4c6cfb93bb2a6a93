"""A change that a model writes as a block of what is searched and what replaces it: `<<<<<<< SEARCH …`. Pure."""

from tools.base import ToolError
from tools.lazy import regex

_BLOCK = regex(
    r"^(?:<{5,9}|-{5,9}) ?SEARCH>?[ \t]*\r?\n(?P<about>(?::(?:start|end)_line:.*\n)*(?:-{5,9}[ \t]*\r?\n)?)"
    r"(?P<old>(?:.*\n)*?)={5,9}[ \t]*\r?\n(?P<new>(?:.*\n)*?)(?:>{5,9}|\+{5,9}) ?REPLACE>?[ \t]*\r?$"
)
_BETWEEN = regex(r"(?m)^={5,9}[ \t\r]*$")
_START = regex(r"(?m)^(?:<{5,9}|-{5,9}) ?SEARCH")


def as_replacement(text: str) -> tuple[str, str] | None:
    """What the one block of a text searches, and what it puts there; None where the text is no such block. Raises
    `ToolError` for several."""
    starts = len(_START.findall(text))
    if starts > 1:
        raise ToolError(
            f"`edit` makes one change a call: call it {starts} times, with `old` and `new` of one block each"
        )
    found = _BLOCK.fullmatch(text.strip("\r\n"))
    if found is None or not found["old"] or len(_BETWEEN.findall(text)) > 1:
        return None
    return found["old"].removesuffix("\n").removesuffix("\r"), found["new"].removesuffix("\n").removesuffix("\r")
