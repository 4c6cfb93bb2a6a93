"""Planning edits: finding the text that a model quoted in a file, adapting the new text to the file, and patches."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.edits import patch as patch
    from ebbtide.tools.edits import patch_changes as patch_changes
else:
    __getattr__ = lazy_submodules(__name__)
