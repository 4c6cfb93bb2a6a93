"""The preview of a manual compaction as lines: what happens to each part, the price, and the state of the edited
summary."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.compaction.compact import CompactionResult
from ebbtide.agent.compaction.manual_compaction import CompactionPreview, DraftResult, SummaryEstimate
from ebbtide.agent.events.view import RewriteUndone
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.receipts import receipt_item_lines, undo_price_text

LINE_STYLES: dict[str, TextStyle] = {"head": "text", "item": "dim"}


def compaction_headline(preview: CompactionPreview) -> str:
    result = preview.expected_event
    return (
        f"{result.before_tokens:,} → about {result.after_tokens:,} tokens, "
        f"{result.before_messages} → {pluralize(result.after_messages, 'message')}"
    )


def compaction_plan_lines(preview: CompactionPreview) -> tuple[Line, ...]:
    """Format the price, then what happens to each part."""
    return tuple(_plan_lines(preview))


def _plan_lines(preview: CompactionPreview) -> Iterator[Line]:
    yield (("Summary  ", "strong"), (price_estimate_text(preview.quote), "text"))
    yield (("A cheaper model can write summaries: see /settings.", "dim"),)
    if preview.focus:
        yield (("Focus  ", "strong"), (sanitise_line(preview.focus), "text"))
    if preview.limits.problem:
        yield ((sanitise_line(preview.limits.problem), "warn"),)
    yield ()
    for kind, text in receipt_item_lines(preview.expected_event.receipt):
        yield ((sanitise_line(text), LINE_STYLES[kind]),)


def price_estimate_text(estimate: SummaryEstimate) -> str:
    """Format the expected size of the summary request and its maximum price."""
    input_text = (
        f"{format_tokens(estimate.read_tokens)} cached in"
        if estimate.is_cached
        else f"{format_tokens(estimate.read_tokens)} in"
    )
    price = "price unknown" if estimate.cost is None else f"at most {format_dollars(estimate.cost)}"
    return sanitise_line(
        f"by {estimate.model} · cost: {input_text}, up to {format_tokens(estimate.written_tokens)} out ({price})"
    )


def draft_status_text(draft: DraftResult, summary_tokens: int, result: CompactionResult) -> str:
    """Say who wrote the summary and at what price, how large it is now, and how large the conversation will be."""
    if draft.draft is not None:
        author = f"written by {draft.model} for {format_dollars(draft.cost)}"
    elif draft.model:
        author = f"no usable summary ({format_dollars(draft.cost)}): write one, or keep only the key facts"
    else:
        author = "write a summary, or keep only the key facts"
    sizes = f"{result.before_tokens:,} → {result.after_tokens:,} tokens"
    return sanitise_line(f"{author} · about {summary_tokens:,} tokens; total {sizes}")


def missing_fact_lines(missing_facts: Sequence[str], is_empty: bool) -> tuple[Line, ...]:
    """Name up to three required facts that the summary lacks."""
    if is_empty:
        return ((("An empty summary keeps only the key facts.", "dim"),),)
    if not missing_facts:
        return ((("All required facts are included.", "good"),),)
    lines: list[Line] = [((f"{pluralize(len(missing_facts), 'required fact')} missing:", "warn"),)]
    lines += [((sanitise_line(line), "dim"),) for line in missing_facts[:3]]
    if len(missing_facts) > 3:
        lines.append(((f"… {len(missing_facts) - 3} more", "dim"),))
    return tuple(lines)


def undo_lines(event: RewriteUndone) -> tuple[Line, ...]:
    """Say what undoing the last rewrite would change and cost."""
    return (
        (("The model sees the removed content again, and everything said since.", "text"),),
        ((f"{event.before_tokens:,} → {event.after_tokens:,} of {event.effective:,} tokens", "text"),),
        ((_capitalised(undo_price_text(event)), "warn"),),
        (("Nothing is compacted automatically until more is added, unless the window is full.", "dim"),),
    )


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
