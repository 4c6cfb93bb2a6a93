"""Converts untrusted documents to text in processes with limited time and memory."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.documents import converter as converter
    from ebbtide.tools.documents import pdf as pdf
else:
    __getattr__ = lazy_submodules(__name__)
