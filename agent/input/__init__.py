"""Builds messages from user input, and the system prompt."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.input import attach as attach
    from ebbtide.agent.input import instructions as instructions
    from ebbtide.agent.input import named_extensions as named_extensions
    from ebbtide.agent.input import scoped_rules as scoped_rules
else:
    __getattr__ = lazy_submodules(__name__)
