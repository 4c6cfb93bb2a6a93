"""Masks secrets in the rows and outputs of an exported session, character by character, so that sizes and positions
stay the same."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from ebbtide.agent.records.codec import as_json
from ebbtide.store.transfer import TransferRow
from ebbtide.tools.secrets.key_formats import may_go_on, secrets_in
from ebbtide.tools.secrets.redaction import hidden_forms, secret_places
from ebbtide.tools.secrets.secret_pieces import FoundSecret

MASK_CHAR = "*"
LONGEST_LINE = 1 << 16
"""Longest part of a line that is searched at once, in bytes."""
LONGEST_WORD = 200
"""Longest text without blanks that is searched for labelled secrets, in characters."""
_AS_THEY_ARE = ("role", "kind", "media_type", "purpose")
"""Columns with our own words."""


class ExportMask:
    """Masks the secrets of an environment, and anything that looks like a secret."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._known = hidden_forms(environment)
        # Bytes are decoded as Latin-1, so that they can be cut anywhere and encoded again.
        self._in_bytes = {_as_signs(form.encode("utf-8", "surrogatepass")): name for form, name in self._known.items()}
        self.digests: dict[str, str] = {}
        """New digests of outputs that masking changes, by their old digests."""
        self.count = 0
        """Number of secrets masked in what was written."""

    def row(self, row: TransferRow) -> TransferRow:
        changed = {name: self._cell(name, cell) for name, cell in row.items() if isinstance(cell, str)}
        return {**row, **changed}

    def text(self, text: str, name: str = "") -> str:
        """The text with its secrets masked. `name`: the name of its field, which may indicate a secret."""
        # Providers reject signatures and encrypted parts with a changed character, so only keys are masked there.
        is_one_word = len(text) > LONGEST_WORD and len(text.split(maxsplit=1)) == 1
        if name and not is_one_word:
            label = f"{name}: "
            return self.text(label + text)[len(label) :]
        found = secrets_in(text, self._known) if is_one_word else secret_places(text, self._known)
        self.count += len(found)
        return _mask_secrets(text, found) if found else text

    def chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Mask chunks of bytes, keeping their total size."""
        held = ""
        for chunk in chunks:
            text = held + _as_signs(chunk)
            found = secret_places(text, self._in_bytes)
            end = min(may_go_on(text, self._in_bytes), _last_lines(text))
            end = min([end, *(one.start for one in found if one.start < end < one.end)])
            held = text[end:]
            yield self._mask_signs(text[:end])
        yield self._mask_signs(held)

    def _mask_signs(self, text: str) -> bytes:
        found = secret_places(text, self._in_bytes)
        self.count += len(found)
        return _mask_secrets(text, found).encode("latin-1")

    def _cell(self, name: str, cell: str) -> str:
        if name in _AS_THEY_ARE:
            return cell
        if name != "body":
            return self.digests.get(cell) or self.text(cell)
        try:
            body = json.loads(cell)
        except (ValueError, RecursionError):
            return self.text(cell)
        shown = self._value(body)
        return cell if shown == body else as_json(cast(Mapping[str, object], shown))

    def _value(self, value: object, name: str = "") -> object:
        match value:
            case str():
                return self.digests.get(value) or self.text(value, name)
            case dict():
                return {key: self._value(inner, key) for key, inner in value.items()}
            case list():
                return [self._value(inner, name) for inner in value]
            case _:
                return value


def _last_lines(text: str) -> int:
    """The start of the last line but one: a word in it may label the next one as a secret."""
    return max(text.rfind("\n", 0, max(text.rfind("\n"), 0)) + 1, len(text) - LONGEST_LINE)


def _as_signs(data: bytes) -> str:
    return data.decode("latin-1")


def _mask_secrets(text: str, found: Iterable[FoundSecret]) -> str:
    pieces, at = list[str](), 0
    for one in found:
        pieces += [text[at : one.start], re.sub(r"[^\n]", MASK_CHAR, text[one.start : one.end])]
        at = one.end
    return "".join([*pieces, text[at:]])
