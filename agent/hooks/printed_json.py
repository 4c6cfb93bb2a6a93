"""Finds JSON objects anywhere in a hook's output: after the greeting of a shell profile, between log lines, with colour
codes, after a byte order mark. Pure."""

import codecs
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.tools.outputs.plain_text import plain

_DECODER = json.JSONDecoder(strict=False)
"""Accepts line breaks in strings, which `echo` produces in some shells."""
_BEGINS = re.compile(r'\{(?=\s*["}])')
_MAX_FAILURES = 1_000
"""Maximum number of false object starts, after which the rest counts as text."""
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
    """End of its position in the text."""


@dataclass(frozen=True, slots=True)
class HookOutput:
    """The output of a hook."""

    text: str
    objects: tuple[PrintedObject, ...] = ()

    def without(self, objects: Sequence[PrintedObject]) -> str:
        """The text without these objects, which must be in order."""
        at, parts = 0, []
        for each in objects:
            parts.append(self.text[at : each.start])
            at = each.end
        return "".join((*parts, self.text[at:])).strip()

    @property
    def chatter(self) -> str:
        """Everything outside the objects."""
        return self.without(self.objects)


def read_printed(output: bytes) -> HookOutput:
    """Parse a hook's output into text and objects."""
    text = plain(decode_output(output)).replace("\ufeff", "").strip()
    found: list[PrintedObject] = []
    at = failures = 0
    while failures < _MAX_FAILURES and (begins := _BEGINS.search(text, at)):
        try:
            tables, end = _DECODER.raw_decode(text, begins.start())
            found.append(PrintedObject(_storable(tables), begins.start(), end))
            at = end
        except (ValueError, RecursionError):  # broken JSON may contain a complete object
            at, failures = begins.start() + 1, failures + 1
    return HookOutput(text, tuple(found))


def decode_output(output: bytes) -> str:
    """Decode output as UTF-8, or as UTF-16 if it has that byte order mark."""
    is_wide = output.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in output
    return output.decode("utf-16" if is_wide else "utf-8", "replace")


def holds_decision(text: str) -> bool:
    """Whether text that is not valid JSON contains a decision."""
    return _DECISION.search(text) is not None


def _storable(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace lone surrogates, which can be neither stored nor displayed."""
    written = json.dumps(tables, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode("utf-8", "replace"))  # type: ignore[no-any-return]  # still an object
    return tables
