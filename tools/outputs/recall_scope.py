"""The scopes of recall. Defined apart from the lookup, because settings refer to them."""

from typing import Literal, TypeAlias

RecallScope: TypeAlias = Literal["session", "project", "all"]
RECALL_SCOPES: tuple[RecallScope, ...] = ("session", "project", "all")
"""The scopes, from narrow to wide. Each includes the previous ones."""
