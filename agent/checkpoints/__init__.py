"""Checkpoints of files before the agent changes them: scan, store, plan a restore, restore."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.checkpoints import project as project
    from ebbtide.agent.checkpoints import unread_files as unread_files
else:
    __getattr__ = lazy_submodules(__name__)
