"""Typographic punctuation and its ASCII equivalents: models often write one where a file has the other. Pure."""

from collections.abc import Iterator

from ebbtide.tools.lazy import dataclass, regex

_KINDS = {
    "'": "\u2018\u2019\u201a\u201b\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    " ": "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000",
}
_PLAIN = {sign: plain for plain, signs in _KINDS.items() for sign in signs}
_PLAIN_SIGNS = str.maketrans(_PLAIN)
"""Character for character, so that positions stay the same."""

_PIECE = regex(r"\w+|\s+|.")


def plain_signs(text: str) -> str:
    return text if text.isascii() else text.translate(_PLAIN_SIGNS)


@dataclass(frozen=True, slots=True)
class FilePunctuation:
    """The file's punctuation, where a model's text differs only in that."""

    plain: frozenset[str] = frozenset()
    """ASCII characters that the file has where the model wrote typographic ones."""

    @classmethod
    def between(cls, old: str, here: str) -> "FilePunctuation":
        if old.isascii():
            return cls()
        pairs = list(zip("".join(old.split()), "".join(here.split()), strict=False))
        meant = {_PLAIN[one] for one, other in pairs if one in _PLAIN and one == other}
        return cls(frozenset(_PLAIN[one] for one, other in pairs if one in _PLAIN and other == _PLAIN[one]) - meant)

    def apply_to(self, text: str) -> str:
        """Return the text with the model's typographic characters replaced with the file's ASCII ones."""
        if not self.plain or text.isascii():
            return text
        return "".join(_PLAIN[sign] if _PLAIN.get(sign) in self.plain else sign for sign in text)

    def carry_over(self, old: str, new: str, here: str) -> str:
        """Return the new text, with what it shares with the old text taken from the file if they differ only in
        punctuation."""
        if old == here or len(old) != len(here) or plain_signs(old) != plain_signs(here):
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
