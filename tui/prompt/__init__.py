"""The prompt's logic: history, completion, files, pastes and vi keys."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.prompt import history as history
else:
    __getattr__ = lazy_submodules(__name__)
