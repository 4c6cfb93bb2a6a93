"""Typographic punctuation and its ASCII equivalents. Models often write one where a file has the other. Pure."""

from collections.abc import Iterator

from ebbtide.tools.lazy import dataclass, regex

_TYPOGRAPHIC_BY_ASCII = {
    "'": "\u2018\u2019\u201a\u201b\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    " ": "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000",
}
_ASCII_BY_TYPOGRAPHIC = {sign: plain for plain, signs in _TYPOGRAPHIC_BY_ASCII.items() for sign in signs}
_ASCII_TRANSLATION = str.maketrans(_ASCII_BY_TYPOGRAPHIC)
"""Maps single characters to single characters, so that positions stay the same."""

_PIECE = regex(r"\w+|\s+|.")


def ascii_punctuation(text: str) -> str:
    return text if text.isascii() else text.translate(_ASCII_TRANSLATION)


@dataclass(frozen=True, slots=True)
class FilePunctuation:
    """The file's punctuation, if a model's text differs from the file only in punctuation."""

    ascii_characters: frozenset[str] = frozenset()
    """ASCII characters that the file has in places where the model wrote typographic ones."""

    @classmethod
    def from_texts(cls, old: str, here: str) -> "FilePunctuation":
        if old.isascii():
            return cls()
        pairs = list(zip("".join(old.split()), "".join(here.split()), strict=False))
        intended = {_ASCII_BY_TYPOGRAPHIC[one] for one, other in pairs if one in _ASCII_BY_TYPOGRAPHIC and one == other}
        return cls(
            frozenset(
                _ASCII_BY_TYPOGRAPHIC[one]
                for one, other in pairs
                if one in _ASCII_BY_TYPOGRAPHIC and other == _ASCII_BY_TYPOGRAPHIC[one]
            )
            - intended
        )

    def apply_to(self, text: str) -> str:
        """Return the text with the model's typographic characters replaced with the file's ASCII ones."""
        if not self.ascii_characters or text.isascii():
            return text
        return "".join(
            _ASCII_BY_TYPOGRAPHIC[sign] if _ASCII_BY_TYPOGRAPHIC.get(sign) in self.ascii_characters else sign
            for sign in text
        )

    def carry_over(self, old: str, new: str, here: str) -> str:
        """Return the new text. The parts that it shares with the old text are taken from the file, if the old text and
        the file differ only in punctuation."""
        if old == here or len(old) != len(here) or ascii_punctuation(old) != ascii_punctuation(here):
            return self.apply_to(new)
        return "".join(self._pieces(old, new, here))

    def _pieces(self, old: str, new: str, here: str) -> Iterator[str]:
        from difflib import SequenceMatcher  # noqa: PLC0415  # deferred: only lines with other signs need it

        was, put = _PIECE.findall(old), _PIECE.findall(new)
        ends = [0]
        for piece in was:
            ends.append(ends[-1] + len(piece))
        for tag, i, j, k, m in SequenceMatcher(None, was, put, autojunk=False).get_opcodes():
            yield here[ends[i] : ends[j]] if tag == "equal" else self.apply_to("".join(put[k:m]))
