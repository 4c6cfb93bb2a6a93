"""Storing and loading of sessions: rows, recorder, resume, changed files, garbage collection."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.records import garbage as garbage
    from ebbtide.agent.records import git as git
    from ebbtide.agent.records import turn_endings as turn_endings
    from ebbtide.agent.records import versions as versions
else:
    __getattr__ = lazy_submodules(__name__)
