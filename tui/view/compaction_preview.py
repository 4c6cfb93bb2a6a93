"""The preview of a manual compaction as lines: the fate of each part, the price and the state of an edited summary."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.events.view import RewriteUndone
from ebbtide.agent.window.compact import CompactResult
from ebbtide.agent.window.manual_compact import Preview, Quote, SummaryDraft
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.receipts import fates_of, price_of_undo

INKS: dict[str, TextStyle] = {"head": "text", "item": "dim"}


def headline(preview: Preview) -> str:
    told = preview.expected
    return (
        f"{told.before_tokens:,} → about {told.after_tokens:,} tokens, "
        f"{told.before_messages} → {pluralize(told.after_messages, 'message')}"
    )


def plan_lines(preview: Preview) -> tuple[Line, ...]:
    """The price, then the fate of each part."""
    return tuple(_plan(preview))


def _plan(preview: Preview) -> Iterator[Line]:
    yield (("The summary  ", "strong"), (quote_text(preview.quote), "text"))
    yield (("It may be written by a model that you set for summaries, or by a cheaper one of yours.", "dim"),)
    if preview.focus:
        yield (("Focus  ", "strong"), (sanitised_line(preview.focus), "text"))
    if preview.floor.problem:
        yield ((sanitised_line(preview.floor.problem), "warn"),)
    yield ()
    for weight, text in fates_of(preview.expected.receipt):
        yield ((sanitised_line(text), INKS[weight]),)


def quote_text(quote: Quote) -> str:
    """The maximum price of the summary."""
    where = " from its cache" if quote.is_cached else ""
    price = "price not known" if quote.cost is None else f"at most {dollars(quote.cost)}"
    read, written = tokens(quote.read), tokens(quote.written)
    return sanitised_line(f"{quote.model} reads {read}{where} and writes up to {written}: {price}")


def draft_text(drafted: SummaryDraft, size: int, result: CompactResult) -> str:
    """Who wrote the summary and its price, its current size, and the resulting size of the conversation."""
    if drafted.draft is not None:
        by = f"written by {drafted.model} for {dollars(drafted.cost)}"
    elif drafted.model:
        by = f"no summary could be used ({dollars(drafted.cost)}): write one, or use the facts alone"
    else:
        by = "write a summary, or use the facts alone"
    sizes = f"{result.before_tokens:,} → {result.after_tokens:,} tokens"
    return sanitised_line(f"{by} · about {size:,} tokens; in total {sizes}")


def gate_lines(missing: Sequence[str], is_empty: bool) -> tuple[Line, ...]:
    """Required facts missing from the summary; at most three of them by name."""
    if is_empty:
        return ((("Without a text, the facts on record stand for what is left out.", "dim"),),)
    if not missing:
        return ((("Nothing that must be in it is missing.", "good"),),)
    lines: list[Line] = [
        ((f"{pluralize(len(missing), 'fact')} that must be in it {_be(len(missing))} missing:", "warn"),)
    ]
    lines += [((sanitised_line(line), "dim"),) for line in missing[:3]]
    if len(missing) > 3:
        lines.append(((f"… {len(missing) - 3} more", "dim"),))
    return tuple(lines)


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def undo_lines(event: RewriteUndone) -> tuple[Line, ...]:
    """What undoing the last rewrite would change and cost."""
    return (
        (("The model sees again what that took out of its view, and all that was said since.", "text"),),
        ((f"{event.before_tokens:,} → {event.after_tokens:,} of {event.effective:,} tokens", "text"),),
        ((_capital(price_of_undo(event)), "warn"),),
        (("Until more has come nothing leaves its view by itself, except when the window is full.", "dim"),),
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
