"""The tools in the subfolders of `ebbtide.tools.integrations`. A subfolder can be deleted together with its rows in
this module; the rest of the program works without them."""

from collections.abc import Sequence
from importlib import import_module

RARE_TOOL_LOCATIONS: Sequence[str] = (
    "code_map.repo_map:RepoMap",
    "lsp.diagnostics_tool:Diagnostics",
    "lsp.symbols_tool:Symbols",
)
"""Rarely needed tools, in the order in which models see them; see `base.RareTool`."""


def load_integration(location: str) -> object:
    """Import and return an object of the integrations. `location`: `MODULE:NAME`. Raises `ImportError`."""
    module, _, name = location.partition(":")
    return getattr(import_module(f"ebbtide.tools.integrations.{module}"), name)
