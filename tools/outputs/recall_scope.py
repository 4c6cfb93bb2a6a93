"""The scopes of recall. Settings refer to them, so they are defined apart from the lookup."""

from typing import Literal, TypeAlias

Scope: TypeAlias = Literal["session", "project", "all"]
SCOPES: tuple[Scope, ...] = ("session", "project", "all")
"""Each includes the one before it."""
