"""The JSON objects in what a hook prints, wherever they stand: behind the greeting of a shell profile, between log
lines, coloured, behind a byte order mark. Pure."""

import codecs
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.tools.outputs.plain_text import plain

_DECODER = json.JSONDecoder(strict=False)
"""It takes line breaks in strings, which `echo` of some shells makes."""
_BEGINS = re.compile(r'\{(?=\s*["}])')
_MAX_FAILURES = 1_000
"""Places that look like the start of an object and are none, after which the rest counts as text."""
_DECISION = re.compile(
    r"""\\*["'](?:permissionDecision|decision)\\*["']\s*:"""
    r"""|\{[^{}]*\b(?:permissionDecision|decision)\s*:"""
    r"""|\\*["']continue\\*["']\s*:\s*[fF]alse"""
)


@dataclass(frozen=True, slots=True)
class PrintedObject:
    tables: Mapping[str, Any]
    start: int
    end: int
    """Where it stands in the text."""


@dataclass(frozen=True, slots=True)
class HookOutput:
    """What a hook printed."""

    text: str
    objects: tuple[PrintedObject, ...] = ()

    def without(self, objects: Sequence[PrintedObject]) -> str:
        """The text but for these objects, in their order."""
        at, parts = 0, []
        for each in objects:
            parts.append(self.text[at : each.start])
            at = each.end
        return "".join((*parts, self.text[at:])).strip()

    @property
    def chatter(self) -> str:
        """All that is no object."""
        return self.without(self.objects)


def read_printed(output: bytes) -> HookOutput:
    """The text that a hook printed, and the objects in it."""
    text = plain(decode_output(output)).replace("\ufeff", "").strip()
    found: list[PrintedObject] = []
    at = failures = 0
    while failures < _MAX_FAILURES and (begins := _BEGINS.search(text, at)):
        try:
            tables, end = _DECODER.raw_decode(text, begins.start())
            found.append(PrintedObject(_storable(tables), begins.start(), end))
            at = end
        except (ValueError, RecursionError):  # inside of what is broken there may be one that is whole
            at, failures = begins.start() + 1, failures + 1
    return HookOutput(text, tuple(found))


def decode_output(output: bytes) -> str:
    """What was printed as text: UTF-8, or UTF-16 as its byte order mark says."""
    is_wide = output.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in output
    return output.decode("utf-16" if is_wide else "utf-8", "replace")


def holds_decision(text: str) -> bool:
    """Whether a text that is no JSON says a decision all the same."""
    return _DECISION.search(text) is not None


def _storable(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same, with half characters replaced, which can neither be stored nor shown."""
    written = json.dumps(tables, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode("utf-8", "replace"))  # type: ignore[no-any-return]  # an object as before
    return tables
