"""Prepares and sends the next request: chooses its model, frees space, and recovers if the request does not fit."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.request import keep_alive as keep_alive
else:
    __getattr__ = lazy_submodules(__name__)
