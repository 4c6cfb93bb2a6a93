"""The client for language servers: individual servers and the pool of a session."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.integrations.lsp import client as client
    from ebbtide.tools.integrations.lsp import diagnostics as diagnostics
    from ebbtide.tools.integrations.lsp import installs as installs
    from ebbtide.tools.integrations.lsp import pool as pool
    from ebbtide.tools.integrations.lsp import symbols as symbols
else:
    __getattr__ = lazy_submodules(__name__)
