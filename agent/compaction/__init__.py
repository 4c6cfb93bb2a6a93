"""Compaction and edits of the view: rewrites, plan, summary, receipt, undo."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.compaction import compact as compact
    from ebbtide.agent.compaction import model_summary as model_summary
    from ebbtide.agent.compaction import receipt as receipt
    from ebbtide.agent.compaction import room as room
    from ebbtide.agent.compaction import strategies as strategies
    from ebbtide.agent.compaction import view_edits as view_edits
else:
    __getattr__ = lazy_submodules(__name__)
