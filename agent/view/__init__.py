"""The model's view of a conversation: outputs, previews, stubs and pins, and what happened to hidden text. No I/O."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.view import error_lines as error_lines
    from ebbtide.agent.view import long_texts as long_texts
else:
    __getattr__ = lazy_submodules(__name__)
