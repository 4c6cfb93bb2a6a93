"""Numbers, sanitising, fuzzy matching, styles, themes and unified diffs."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.text import sanitise as sanitise
else:
    __getattr__ = lazy_submodules(__name__)
