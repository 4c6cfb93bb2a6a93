"""Files and their text: path resolution, reading, comparison and atomic changes."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.files import byte_order as byte_order
    from ebbtide.tools.files import change_selection as change_selection
    from ebbtide.tools.files import line_diff as line_diff
    from ebbtide.tools.files import notebook as notebook
    from ebbtide.tools.files import notebook_view as notebook_view
    from ebbtide.tools.files import text as text
else:
    __getattr__ = lazy_submodules(__name__)
