"""Token estimates for text that no provider has counted yet, and values cached per message. No I/O."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.tokens import images as images
else:
    __getattr__ = lazy_submodules(__name__)
