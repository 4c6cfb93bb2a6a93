"""The terminal around the app: title, notifications, clipboard, editor, signals and colours."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.terminal import clipboard_copy as clipboard_copy
    from ebbtide.tui.terminal import clipboard_image as clipboard_image
    from ebbtide.tui.terminal import edit_text as edit_text
    from ebbtide.tui.terminal import editor_screen as editor_screen
    from ebbtide.tui.terminal import scrollback as scrollback
    from ebbtide.tui.terminal import terminal_driver as terminal_driver
else:
    __getattr__ = lazy_submodules(__name__)
