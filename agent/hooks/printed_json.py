"""Finds JSON objects anywhere in a hook's output, even after the greeting of a shell profile, between log lines, among
colour codes or after a byte order mark."""

import codecs
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.tools.outputs.plain_text import terminal_text

_DECODER = json.JSONDecoder(strict=False)
"""Accepts line breaks within strings, because `echo` produces them in some shells."""
_OBJECT_START = re.compile(r'\{(?=\s*["}])')
_MAX_FAILURES = 1_000
"""Maximum number of opening braces that do not begin a JSON object. After that many, the rest of the output counts as
text."""
_DECISION_TEXT = re.compile(
    r"""\\*["'](?:permissionDecision|decision)\\*["']\s*:"""
    r"""|\{[^{}]*\b(?:permissionDecision|decision)\s*:"""
    r"""|\\*["']continue\\*["']\s*:\s*[fF]alse"""
)


@dataclass(frozen=True, slots=True)
class PrintedObject:
    fields: Mapping[str, Any]
    start: int
    end: int
    """The position in the text just after the object."""


@dataclass(frozen=True, slots=True)
class HookOutput:
    """The output of a hook."""

    text: str
    objects: tuple[PrintedObject, ...] = ()

    def text_without(self, objects: Sequence[PrintedObject]) -> str:
        """Return the text without these objects, which must be sorted by position."""
        offset, pieces = 0, []
        for printed_object in objects:
            pieces.append(self.text[offset : printed_object.start])
            offset = printed_object.end
        return "".join((*pieces, self.text[offset:])).strip()

    @property
    def surrounding_text(self) -> str:
        """All text outside the objects."""
        return self.text_without(self.objects)


def parse_output(output: bytes) -> HookOutput:
    """Parse a hook's output into text and objects."""
    text = terminal_text(decode_output(output)).replace("\ufeff", "").strip()
    objects: list[PrintedObject] = []
    offset = failure_count = 0
    while failure_count < _MAX_FAILURES and (match := _OBJECT_START.search(text, offset)):
        try:
            tables, end = _DECODER.raw_decode(text, match.start())
            objects.append(PrintedObject(_without_surrogates(tables), match.start(), end))
            offset = end
        except (ValueError, RecursionError):  # not an object, but a complete one may follow within it
            offset, failure_count = match.start() + 1, failure_count + 1
    return HookOutput(text, tuple(objects))


def decode_output(output: bytes) -> str:
    """Decode output as UTF-8, or as UTF-16 if it begins with the byte order mark of UTF-16."""
    is_utf16 = output.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in output
    return output.decode("utf-16" if is_utf16 else "utf-8", "replace")


def contains_decision(text: str) -> bool:
    """Whether text that is not valid JSON appears to contain a decision."""
    return _DECISION_TEXT.search(text) is not None


def _without_surrogates(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace lone surrogates in the tables, because they can be neither stored nor displayed."""
    encoded = json.dumps(tables, ensure_ascii=False)
    try:
        encoded.encode()
    except UnicodeEncodeError:
        return json.loads(encoded.encode("utf-8", "replace"))  # type: ignore[no-any-return]  # still an object
    return tables
