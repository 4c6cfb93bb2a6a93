"""What the words of a line mean, for whoever draws them. Plain values."""

from typing import Literal, TypeAlias

Ink: TypeAlias = Literal["text", "strong", "dim", "accent", "good", "warn", "bad"]
Span: TypeAlias = tuple[str, Ink]
Line: TypeAlias = tuple[Span, ...]
