"""What the words of a line mean, for whoever draws them. Plain values."""

from typing import Literal, TypeAlias

from tools.lazy import regex

Ink: TypeAlias = Literal["text", "strong", "dim", "accent", "good", "warn", "bad", "code"]
Span: TypeAlias = tuple[str, Ink]
Line: TypeAlias = tuple[Span, ...]

_CODE = regex(r"`([^`\n]+)`")


def coded(text: str, ink: Ink) -> Line:
    """A sentence of ours, in which what stands between backticks is drawn as code and without them. Where they make no
    pairs, the sentence stays as it is."""
    if text.count("`") % 2:
        return ((text, ink),)
    pieces = _CODE.split(text)
    return tuple((piece, "code" if at % 2 else ink) for at, piece in enumerate(pieces) if piece) or (("", ink),)


def uncoded(text: str) -> str:
    """The sentence without the backticks around its code, where nothing draws that."""
    return "".join(words for words, _ in coded(text, "text"))
