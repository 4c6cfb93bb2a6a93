"""Tool call arguments: validation, typed access, and translation from other agents' tools."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.call_arguments import foreign_calls as foreign_calls
    from ebbtide.tools.call_arguments import schema as schema
else:
    __getattr__ = lazy_submodules(__name__)
