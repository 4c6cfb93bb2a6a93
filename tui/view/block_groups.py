"""Merges transcript blocks. Consecutive lookups, with any reasoning in between, become one line. A turn's newest to-do
list replaces the earlier ones."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import role_of, traits_of
from ebbtide.tui.view.blocks import Block, Call, ReasoningBlock, UserText
from ebbtide.tui.view.call_titles import call_title


@dataclass(frozen=True, slots=True)
class LookupGroup:
    """Consecutive calls that only look something up."""

    calls: tuple[Call, ...]


DisplayedBlock: TypeAlias = Block | LookupGroup | None
"""What is drawn for a block. None if another block includes it."""


def group_blocks(
    blocks: Sequence[Block], is_separate: Callable[[int], bool] = lambda index: False
) -> list[DisplayedBlock]:
    """Decide what to draw for each block, in order. `is_separate`: whether the block at an index must stay
    ungrouped."""
    displayed: list[DisplayedBlock] = list(blocks)
    lookup_indexes: list[int] = []
    todo_index: int | None = None
    for index, block in enumerate(blocks):
        if isinstance(block, Call) and block.status in ("done", "running") and not is_separate(index):
            if is_lookup(block):
                lookup_indexes.append(index)
                continue
            if role_of(block.name) == "list_todos":
                if todo_index is None:
                    todo_index = index
                else:
                    displayed[index] = None
                    displayed[todo_index] = block if block.status == "done" else displayed[todo_index]
        elif isinstance(block, ReasoningBlock) and not is_separate(index):
            continue
        elif isinstance(block, UserText):
            todo_index = None
        if lookup_indexes:
            _group_lookups(blocks, lookup_indexes, displayed)
            lookup_indexes = []
    _group_lookups(blocks, lookup_indexes, displayed)
    return displayed


def is_lookup(call: Call) -> bool:
    """Whether the call only looks something up."""
    return traits_of(call.name).lookup_words is not None


def _group_lookups(blocks: Sequence[Block], lookup_indexes: Sequence[int], displayed: list[DisplayedBlock]) -> None:
    if len(lookup_indexes) > 1:
        displayed[lookup_indexes[0]] = LookupGroup(
            tuple(block for index in lookup_indexes if isinstance(block := blocks[index], Call))
        )
        for index in range(lookup_indexes[0] + 1, lookup_indexes[-1] + 1):  # including the reasoning in between
            displayed[index] = None


def lookup_summary(lookups: LookupGroup) -> tuple[str, str]:
    """Summarise lookups as `Read 3 files, searched 2 patterns`. Also returns the names, separated by commas. Repeated
    lookups count once."""
    subjects_by_lookup: dict[tuple[str, str], dict[str, None]] = {}
    for call in lookups.calls:
        traits = traits_of(call.name)
        _, _, subject = call_title(call.name, call.arguments).partition("  ")
        item = subject.partition(":")[0] if traits.role == "read_file" else subject
        subjects_by_lookup.setdefault(traits.lookup_words or ("", ""), {})[item] = None
    summary = ", ".join(f"{verb} {pluralize(len(items), noun)}" for (verb, noun), items in subjects_by_lookup.items())
    return summary[:1].upper() + summary[1:], ", ".join(item for items in subjects_by_lookup.values() for item in items)
