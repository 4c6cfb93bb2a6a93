"""What is written of a session for others: its rows and outputs with the secrets in them masked, sign by sign, so that
sizes, lines and places in a text stay what they are. Pure but for the bytes that it is given."""

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
"""Bytes of a line that are looked at together."""
LONGEST_WORD = 200
"""Characters without a blank among them that may be a text in which a word says what the next one is."""
_AS_THEY_ARE = ("role", "kind", "media_type", "purpose")
"""Columns that hold words of ours."""


class ExportMask:
    """The secrets of an environment, and those that are told by their form."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._known = hidden_forms(environment)
        # Bytes are looked at as the 256 signs that they could be: that can be cut anywhere, and put back.
        self._in_bytes = {_as_signs(form.encode("utf-8", "surrogatepass")): name for form, name in self._known.items()}
        self.digests: dict[str, str] = {}
        """Of outputs that are others once they are masked, by what they were."""
        self.count = 0
        """Secrets that were masked in what was written."""

    def row(self, row: TransferRow) -> TransferRow:
        changed = {name: self._cell(name, cell) for name, cell in row.items() if isinstance(cell, str)}
        return {**row, **changed}

    def text(self, text: str, name: str = "") -> str:
        """The text with its secrets masked. `name`: of the field that holds it, which may say what it is."""
        # Providers refuse a signature or an encrypted part with a changed character: only keys are masked there.
        is_one_word = len(text) > LONGEST_WORD and len(text.split(maxsplit=1)) == 1
        if name and not is_one_word:
            label = f"{name}: "
            return self.text(label + text)[len(label) :]
        found = secrets_in(text, self._known) if is_one_word else secret_places(text, self._known)
        self.count += len(found)
        return _mask_secrets(text, found) if found else text

    def chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same number of bytes."""
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
    """Where the last line but one begins: a word in it may say that the next one is a secret."""
    return max(text.rfind("\n", 0, max(text.rfind("\n"), 0)) + 1, len(text) - LONGEST_LINE)


def _as_signs(data: bytes) -> str:
    return data.decode("latin-1")


def _mask_secrets(text: str, found: Iterable[FoundSecret]) -> str:
    pieces, at = list[str](), 0
    for one in found:
        pieces += [text[at : one.start], re.sub(r"[^\n]", MASK_CHAR, text[one.start : one.end])]
        at = one.end
    return "".join([*pieces, text[at:]])
