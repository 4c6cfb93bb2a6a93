"""Models as lines: capabilities, prices and the cost of switching."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ebbtide.agent.providers.choices import ModelChoice, describe_model, model_choices, price_of_switch
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.text.numbers import dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, heading

if TYPE_CHECKING:  # a type only
    from ebbtide.agent.config.settings import Settings

HEADING: Line = (
    (f"{'Models':<30}", "strong"),
    (f"{'window':>8}{'in':>8}{'out':>8}{'cached':>8}  takes", "dim"),
)
UNKNOWN = "—"


def models_panel(
    listed: Sequence[ModelChoice],
    offer_of: Callable[[str], ModelChoice],
    current: str,
    used: int,
    words: str = "",
    *,
    asks: bool = False,
) -> Panel:
    """The list of models. `offer_of`: describes a model not in the list; `used`: tokens of the conversation; `asks`:
    switching costs money and needs confirmation."""

    def written(words: str) -> Sequence[PanelRow]:
        """A row for the model that was typed."""
        provider, slash, name = words.partition("/")
        if not (provider and slash and name) or any(words == offer.model for offer in listed):
            return ()
        line: Line = ((f"  {sanitised_line(words)}", "text"), ("  as it is written", "dim"))
        return (PanelRow(words, line, about=lines_about(offer_of(words), current, used)),)

    def question(row: PanelRow) -> str:
        return f"y goes on with {sanitised_line(row.value)}; an empty line cancels: "

    return Panel(
        "model",
        (HEADING,),
        tuple(_rows(listed, current, used)),
        "Enter goes on with it   or type PROVIDER/NAME   Esc cancels",
        empty="Not in the list: write it as PROVIDER/NAME.",
        plain_head="Go on with a model; `/model PROVIDER/NAME` takes any other. Prices are in $ per million tokens.",
        actions=(PanelAction(("enter",), "take", confirm=question if asks else None),),
        words=words,
        mark=current,
        looks=asks,
        besides=written,
    )


def _rows(listed: Sequence[ModelChoice], current: str, used: int) -> Iterator[PanelRow]:
    """The models, grouped by provider."""
    for name, group in groupby(listed, lambda offer: "Yours" if offer.is_own else offer.provider):
        yield heading(sanitised_line(name))
        for offer in group:
            yield PanelRow(
                offer.model,
                model_line(offer, offer.model == current),
                in_words(offer, current),
                f"{offer.model} {'' if offer.has_key else 'no key'}",
                lines_about(offer, current, used),
            )


def offers_here(
    settings: "Settings | None", current: str, names: Sequence[str]
) -> tuple[Sequence[ModelChoice], Callable[[str], ModelChoice]]:
    """The models to choose from, and a function that describes any other. `names`: models to offer without settings."""
    if settings is None:
        return [ModelChoice(name) for name in dict.fromkeys((*([current] if current else []), *names))], ModelChoice
    config, environment = settings.config, settings.environment
    found = model_choices(config, environment, (current,) if current else ())
    return found, lambda model: describe_model(model, config, environment)


def in_words(offer: ModelChoice, current: str) -> str:
    """A model in one line, for line mode."""
    said = [offer.model + (" (in use)" if offer.model == current else "")]
    if offer.window is not None:
        said.append(f"window {tokens(offer.window)}")
    if prices := offer.prices:
        read = _price(prices.cache_read)
        said.append(f"in {_price(prices.input)}, out {_price(prices.output)}, cache read {read}")
    if (takes := _takes(offer)) != UNKNOWN:
        said.append(f"takes {takes}")
    if not offer.has_key:
        said.append("no key")
    return sanitised_line("; ".join(said))


def model_line(offer: ModelChoice, is_current: bool) -> Line:
    name = ellipsize(sanitised_line(offer.model), 28)
    prices = offer.prices
    numbers = [UNKNOWN if offer.window is None else tokens(offer.window)]
    if prices is None:
        numbers += [UNKNOWN] * 3
    else:
        numbers += [_price(price) for price in (prices.input, prices.output, prices.cache_read)]
    ink: TextStyle = "strong" if is_current else "text" if offer.has_key else "dim"
    return (
        ("● " if is_current else "  ", "good"),
        (f"{name:<28}", ink),
        ("".join(f"{number:>8}" for number in numbers), "text" if offer.has_key else "dim"),
        (f"  {_takes(offer)}", "dim"),
        ("" if offer.has_key else "  no key", "warn"),
    )


def lines_about(offer: ModelChoice, current: str, used: int) -> tuple[Line, ...]:
    lines: list[Line] = []
    if (takes := _takes(offer)) != UNKNOWN:
        lines.append(((f"takes {takes}", "dim"),))
    if prices := offer.prices:
        read, write = _price(prices.cache_read), _price(prices.cache_write)
        said = f"in {_price(prices.input)}, out {_price(prices.output)}, cache read {read}, written {write}"
        lines.append(((f"$ per million tokens: {said}", "dim"),))
        if prices.long_above is not None and prices.long_input is not None and prices.long_output is not None:
            longer = f"in {_price(prices.long_input)}, out {_price(prices.long_output)}"
            lines.append(((f"above {tokens(prices.long_above)} tokens in a request: {longer}", "dim"),))
    else:
        lines.append((("its prices are unknown", "dim"),))
    if not offer.has_key:
        lines.append(((f"no key for it: `/key {offer.model.partition('/')[0]}` takes one", "warn"),))
    if offer.model != current:
        lines.append(((switch_cost_text(offer, used), "text"),))
    return tuple(lines)


def switch_cost_text(offer: ModelChoice, used: int) -> str:
    """The cost of switching to that model."""
    if not used:
        return "nothing was said yet: to go on with it costs nothing"
    cost = price_of_switch(offer, used)
    price = "at an unknown price" if cost is None else "for nothing" if not cost else f"about {dollars(cost)}"
    return f"to go on with it: about {tokens(used)} tokens are sent that it has not cached, {price}"


def _price(price: float) -> str:
    return "0" if not price else f"{price:.3g}" if price < 0.1 else f"{price:.2f}"


def _takes(offer: ModelChoice) -> str:
    said = (("tools", offer.tools), ("pictures", offer.pictures), ("thinking", offer.thinking))
    if all(takes is None for _, takes in said):
        return UNKNOWN
    return ", ".join(name for name, takes in said if takes) or "text"
