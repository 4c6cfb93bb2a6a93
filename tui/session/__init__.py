"""The displayed session: controller, queue, drafts and the session list."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.session import controller as controller
    from ebbtide.tui.session import demo as demo
    from ebbtide.tui.session import view_edits as view_edits
else:
    __getattr__ = lazy_submodules(__name__)
