"""Model providers: adapters, context windows, prices, token counts, fallbacks, and sending requests."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.providers import choices as choices
    from ebbtide.agent.providers import factory as factory
    from ebbtide.agent.providers import key_command as key_command
    from ebbtide.agent.providers import keys as keys
    from ebbtide.agent.providers import registry as registry
    from ebbtide.agent.providers import setup as setup
    from ebbtide.agent.providers import web_search as web_search
else:
    __getattr__ = lazy_submodules(__name__)
