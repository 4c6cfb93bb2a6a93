"""What is written of a session for others: its rows and outputs with the secrets in them masked, sign by sign, so that
sizes, lines and places in a text stay what they are. Pure but for the bytes that it is given."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from agent.records.codec import as_json
from store.transfer import TransferRow
from tools.secrets.key_formats import forms_of, known_secrets, may_go_on, secrets_in
from tools.secrets.secret_pieces import FoundSecret

MASKED = "*"
_AS_THEY_ARE = ("role", "kind", "media_type", "purpose")
"""Columns that hold words of ours."""


class ExportMask:
    """The secrets of an environment, and those that are told by their form."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._known = {form: name for value, name in known_secrets(environment).items() for form in forms_of(value)}
        # Bytes are looked at as the 256 signs that they could be: that can be cut anywhere, and put back.
        self._in_bytes = {_as_signs(form.encode("utf-8", "surrogatepass")): name for form, name in self._known.items()}
        self.digests: dict[str, str] = {}
        """Of outputs that are others once they are masked, by what they were."""
        self.count = 0
        """Secrets that were masked in what was written."""

    def row(self, row: TransferRow) -> TransferRow:
        changed = {name: self._cell(name, cell) for name, cell in row.items() if isinstance(cell, str)}
        return {**row, **changed}

    def text(self, text: str) -> str:
        found = secrets_in(text, self._known)
        self.count += len(found)
        return _masked(text, found) if found else text

    def chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same number of bytes."""
        held = ""
        for chunk in chunks:
            text = held + _as_signs(chunk)
            found = secrets_in(text, self._in_bytes)
            end = may_go_on(text, self._in_bytes)
            end = min([end, *(one.start for one in found if one.start < end < one.end)])
            held = text[end:]
            yield self._mask_signs(text[:end])
        yield self._mask_signs(held)

    def _mask_signs(self, text: str) -> bytes:
        found = secrets_in(text, self._in_bytes)
        self.count += len(found)
        return _masked(text, found).encode("latin-1")

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

    def _value(self, value: object) -> object:
        match value:
            case str():
                return self.digests.get(value) or self.text(value)
            case dict():
                return {key: self._value(inner) for key, inner in value.items()}
            case list():
                return [self._value(inner) for inner in value]
            case _:
                return value


def _as_signs(data: bytes) -> str:
    return data.decode("latin-1")


def _masked(text: str, found: Iterable[FoundSecret]) -> str:
    pieces, at = list[str](), 0
    for one in found:
        pieces += [text[at : one.start], re.sub(r"[^\n]", MASKED, text[one.start : one.end])]
        at = one.end
    return "".join([*pieces, text[at:]])
