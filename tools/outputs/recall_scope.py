"""How much of what was said may be looked up. Settings name it, before anything is looked up."""

from typing import Literal, TypeAlias

Scope: TypeAlias = Literal["session", "project", "all"]
SCOPES: tuple[Scope, ...] = ("session", "project", "all")
"""Each holds the one before it."""
