"""Typographic punctuation and its ASCII equivalents. Models often write one where a file has the other."""

from collections.abc import Iterator

from ebbtide.tools.lazy import dataclass, regex

_TYPOGRAPHIC_BY_ASCII = {
    "'": "\u2018\u2019\u201a\u201b\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    " ": "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000",
}
_ASCII_BY_TYPOGRAPHIC = {
    typographic: ascii_character
    for ascii_character, variants in _TYPOGRAPHIC_BY_ASCII.items()
    for typographic in variants
}
_ASCII_TRANSLATION = str.maketrans(_ASCII_BY_TYPOGRAPHIC)
"""Maps each character to exactly one, so that offsets stay valid."""

_TOKEN = regex(r"\w+|\s+|.")


def ascii_punctuation(text: str) -> str:
    return text if text.isascii() else text.translate(_ASCII_TRANSLATION)


@dataclass(frozen=True, slots=True)
class FilePunctuation:
    """The ASCII punctuation that the file has where the model wrote typographic characters."""

    ascii_characters: frozenset[str] = frozenset()
    """ASCII characters that the file has wherever the model wrote typographic ones."""

    @classmethod
    def from_texts(cls, old: str, file_text: str) -> "FilePunctuation":
        if old.isascii():
            return cls()
        pairs = list(zip("".join(old.split()), "".join(file_text.split()), strict=False))
        intended = {
            _ASCII_BY_TYPOGRAPHIC[quoted]
            for quoted, in_file in pairs
            if quoted in _ASCII_BY_TYPOGRAPHIC and quoted == in_file
        }
        return cls(
            frozenset(
                _ASCII_BY_TYPOGRAPHIC[quoted]
                for quoted, in_file in pairs
                if quoted in _ASCII_BY_TYPOGRAPHIC and in_file == _ASCII_BY_TYPOGRAPHIC[quoted]
            )
            - intended
        )

    def apply_to(self, text: str) -> str:
        """Replace the model's typographic characters with the file's ASCII ones."""
        if not self.ascii_characters or text.isascii():
            return text
        return "".join(
            _ASCII_BY_TYPOGRAPHIC[character]
            if _ASCII_BY_TYPOGRAPHIC.get(character) in self.ascii_characters
            else character
            for character in text
        )

    def adapt_text(self, old: str, new: str, file_text: str) -> str:
        """Adapt the new text to the file's punctuation. If the old text differs from the file only in punctuation, the
        parts that the new text shares with the old text are copied from the file."""
        if old == file_text or len(old) != len(file_text) or ascii_punctuation(old) != ascii_punctuation(file_text):
            return self.apply_to(new)
        return "".join(self._carried_chunks(old, new, file_text))

    def _carried_chunks(self, old: str, new: str, file_text: str) -> Iterator[str]:
        from difflib import SequenceMatcher  # noqa: PLC0415  # deferred: only lines with other punctuation need it

        old_tokens, new_tokens = _TOKEN.findall(old), _TOKEN.findall(new)
        token_offsets = [0]
        for token in old_tokens:
            token_offsets.append(token_offsets[-1] + len(token))
        for tag, old_start, old_end, new_start, new_end in SequenceMatcher(
            None, old_tokens, new_tokens, autojunk=False
        ).get_opcodes():
            yield (
                file_text[token_offsets[old_start] : token_offsets[old_end]]
                if tag == "equal"
                else self.apply_to("".join(new_tokens[new_start:new_end]))
            )
