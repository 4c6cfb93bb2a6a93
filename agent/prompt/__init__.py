"""Builds the content of a request: system prompt, messages, notes, attachments and offered tools."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.prompt import mentions as mentions
else:
    __getattr__ = lazy_submodules(__name__)
