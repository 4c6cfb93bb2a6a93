"""Groups neighbouring blocks into one line: consecutive lookups with the reasoning between them, and lists replaced
by later ones. Pure."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.view.blocks import Block, Call, ReasoningBlock, UserText
from ebbtide.tui.view.call_titles import title_of

_KINDS = {
    "read": ("read", "file"),
    "grep": ("searched", "pattern"),
    "glob": ("searched", "pattern"),
    "read_result": ("looked up", "kept output"),
    "recall": ("looked up", "kept output"),
    "web_fetch": ("fetched", "page"),
}
"""Lookup tools with their nouns."""


@dataclass(frozen=True, slots=True)
class LookupGroup:
    """Consecutive calls that only looked something up."""

    calls: tuple[Call, ...]


Drawing: TypeAlias = Block | LookupGroup | None
"""What a block is drawn as; None if another block covers it."""


def grouped_blocks(blocks: Sequence[Block], stands_alone: Callable[[int], bool] = lambda at: False) -> list[Drawing]:
    """What each block is drawn as, in order. `stands_alone`: whether the block at that index is drawn by itself."""
    drawn: list[Drawing] = list(blocks)
    run: list[int] = []
    todo: int | None = None
    for at, block in enumerate(blocks):
        if isinstance(block, Call) and block.status in ("done", "running") and not stands_alone(at):
            if is_lookup(block):
                run.append(at)
                continue
            if block.name == "todo":
                if todo is None:
                    todo = at
                else:
                    drawn[at] = None
                    drawn[todo] = block if block.status == "done" else drawn[todo]
        elif isinstance(block, ReasoningBlock) and not stands_alone(at):
            continue
        elif isinstance(block, UserText):
            todo = None
        if run:
            _fold(blocks, run, drawn)
            run = []
    _fold(blocks, run, drawn)
    return drawn


def is_lookup(call: Call) -> bool:
    """Whether the call only looks something up."""
    return call.name in _KINDS


def _fold(blocks: Sequence[Block], run: Sequence[int], drawn: list[Drawing]) -> None:
    if len(run) > 1:
        drawn[run[0]] = LookupGroup(tuple(block for at in run if isinstance(block := blocks[at], Call)))
        for at in range(run[0] + 1, run[-1] + 1):  # thoughts between them, too
            drawn[at] = None


def lookup_summary(lookups: LookupGroup) -> tuple[str, str]:
    """Return a summary, `Read 3 files, searched 2 patterns`, and the names. Repeated lookups count once."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for call in lookups.calls:
        _, _, subject = title_of(call.name, call.arguments).partition("  ")
        what = subject.partition(":")[0] if call.name == "read" else subject
        found.setdefault(_KINDS[call.name], {})[what] = None
    said = ", ".join(f"{verb} {pluralize(len(whats), noun)}" for (verb, noun), whats in found.items())
    return said[:1].upper() + said[1:], ", ".join(what for whats in found.values() for what in whats)
