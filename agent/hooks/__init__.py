"""Hooks: programs from the user, a project or a plugin that run on session events and can block actions. This package
builds their input, runs them and interprets their answers. It does not depend on the call loop or on models."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.hooks import http_hooks as http_hooks
    from ebbtide.agent.hooks import session_hooks as session_hooks
    from ebbtide.agent.hooks import tool_hooks as tool_hooks
else:
    __getattr__ = lazy_submodules(__name__)
