"""Configuration: merges files, environment and flags into one frozen `Config`, and edits the user's file and the
per-project files."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.config import hook_tables as hook_tables
    from ebbtide.agent.config import load as load
    from ebbtide.agent.config import options as options
    from ebbtide.agent.config import settings as settings
else:
    __getattr__ = lazy_submodules(__name__)
