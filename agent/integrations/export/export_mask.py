"""Masks secrets in the rows and outputs of an exported session, character by character, so that sizes and offsets
stay the same."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from ebbtide.agent.records.codec import to_json
from ebbtide.store.transfer import TransferRow
from ebbtide.tools.secrets.key_formats import detect_secrets, find_incomplete_secret
from ebbtide.tools.secrets.redaction import find_secrets, secret_names_by_encoding
from ebbtide.tools.secrets.secret_fragments import SecretSpan

MASK_CHAR = "*"
MAX_SEARCHED_LINE_BYTES = 1 << 16
"""Maximum number of bytes of a line that are searched at once."""
MAX_LABELLED_CHARS = 200
"""Maximum length, in characters, of a single long word that is searched for labelled secrets."""
_UNMASKED_COLUMNS = ("role", "kind", "media_type", "purpose")
"""Columns whose values come from this program and contain no secrets."""


class SecretMask:
    """Masks the secrets of an environment, and anything that looks like a secret. Without an environment, it masks
    nothing."""

    def __init__(self, environment: Mapping[str, str] | None) -> None:
        self.is_on = environment is not None
        self._secret_names = secret_names_by_encoding(environment or {})
        # Bytes are decoded as Latin-1, so that they can be cut anywhere and encoded again.
        self._names_by_latin1_encoding = {
            _decode_latin1(encoding.encode("utf-8", "surrogatepass")): name
            for encoding, name in self._secret_names.items()
        }
        self.digests: dict[str, str] = {}
        """Digests of the exported outputs, by their digests in the store."""
        self.masked_count = 0
        """Number of secrets masked in the written data."""

    def mask_row(self, row: TransferRow) -> TransferRow:
        if not self.is_on:
            return row
        masked_cells = {name: self._masked_cell(name, cell) for name, cell in row.items() if isinstance(cell, str)}
        return {**row, **masked_cells}

    def mask_text(self, text: str, name: str = "") -> str:
        """Mask the secrets in text. `name`: the name of the text's field, which may indicate a secret."""
        # Long text without whitespace may be a signature or encrypted data, which providers reject if any character
        # changes. Therefore, only known keys are masked in it.
        is_one_word = len(text) > MAX_LABELLED_CHARS and len(text.split(maxsplit=1)) == 1
        if name and not is_one_word:
            label = f"{name}: "
            return self.mask_text(label + text)[len(label) :]
        secrets = detect_secrets(text, self._secret_names) if is_one_word else find_secrets(text, self._secret_names)
        self.masked_count += len(secrets)
        return _mask_secrets(text, secrets) if secrets else text

    def mask_chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Mask chunks of bytes, keeping their total size."""
        if not self.is_on:
            yield from chunks
            return
        pending = ""
        for chunk in chunks:
            text = pending + _decode_latin1(chunk)
            secrets = find_secrets(text, self._names_by_latin1_encoding)
            end = min(find_incomplete_secret(text, self._names_by_latin1_encoding), _last_lines_start(text))
            end = min([end, *(secret.start for secret in secrets if secret.start < end < secret.end)])
            pending = text[end:]
            yield self._mask_decoded(text[:end])
        yield self._mask_decoded(pending)

    def _mask_decoded(self, text: str) -> bytes:
        secrets = find_secrets(text, self._names_by_latin1_encoding)
        self.masked_count += len(secrets)
        return _mask_secrets(text, secrets).encode("latin-1")

    def _masked_cell(self, name: str, cell: str) -> str:
        if name in _UNMASKED_COLUMNS:
            return cell
        if name != "body":
            return self.digests.get(cell) or self.mask_text(cell)
        try:
            body = json.loads(cell)
        except (ValueError, RecursionError):
            return self.mask_text(cell)
        masked = self._masked_value(body)
        return cell if masked == body else to_json(cast(Mapping[str, object], masked))

    def _masked_value(self, value: object, name: str = "") -> object:
        match value:
            case str():
                return self.digests.get(value) or self.mask_text(value, name)
            case dict():
                return {key: self._masked_value(item, key) for key, item in value.items()}
            case list():
                return [self._masked_value(item, name) for item in value]
            case _:
                return value


def _last_lines_start(text: str) -> int:
    """Find the start of the second-to-last line. A word in that line may label the last line as a secret."""
    return max(text.rfind("\n", 0, max(text.rfind("\n"), 0)) + 1, len(text) - MAX_SEARCHED_LINE_BYTES)


def _decode_latin1(data: bytes) -> str:
    return data.decode("latin-1")


def _mask_secrets(text: str, secrets: Iterable[SecretSpan]) -> str:
    pieces, offset = list[str](), 0
    for secret in secrets:
        pieces += [text[offset : secret.start], re.sub(r"[^\n]", MASK_CHAR, text[secret.start : secret.end])]
        offset = secret.end
    return "".join([*pieces, text[offset:]])
