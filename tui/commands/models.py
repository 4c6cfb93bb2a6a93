"""The command that switches the model, and the list of models with their capabilities, prices and the cost of
switching."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ebbtide.agent.providers.choices import ModelChoice, describe_model, list_model_choices, switch_cost
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, heading_row

if TYPE_CHECKING:
    from ebbtide.agent.config.settings import Settings

MODELS_HEADING: Line = (
    (f"{'Models':<30}", "strong"),
    (f"{'window':>8}{'in':>8}{'out':>8}{'cached':>8}  supports", "dim"),
)


def build_models_panel(
    choices: Sequence[ModelChoice],
    describe: Callable[[str], ModelChoice],
    current_model: str,
    used_tokens: int,
    search_text: str = "",
    *,
    needs_confirmation: bool = False,
) -> Panel:
    """Build the panel of models. `describe` returns the choice for a model that is not listed. `used_tokens`: tokens in
    the conversation. `needs_confirmation`: whether switching costs money."""

    def typed_model_rows(typed_text: str) -> Sequence[PanelRow]:
        """Build a row for a model that the user typed; none if it is already listed or not of the form
        PROVIDER/NAME."""
        provider, slash, name = typed_text.partition("/")
        if not (provider and slash and name) or any(typed_text == choice.model for choice in choices):
            return ()
        line: Line = ((f"  {sanitise_line(typed_text)}", "text"), ("  use as typed", "dim"))
        return (PanelRow(typed_text, line, details=model_details(describe(typed_text), current_model, used_tokens)),)

    return Panel(
        "model",
        (MODELS_HEADING,),
        tuple(_rows(choices, current_model, used_tokens)),
        "Enter switch   or type PROVIDER/NAME   Esc cancel",
        empty_message="Not in the list: type it as PROVIDER/NAME.",
        actions=(PanelAction(("enter",), "switch"),),
        search_text=search_text,
        initial_value=current_model,
        previews_before_action=needs_confirmation,
        extra_rows=typed_model_rows,
    )


def _rows(choices: Sequence[ModelChoice], current_model: str, used_tokens: int) -> Iterator[PanelRow]:
    """Yield rows for the models, grouped by provider."""
    for title, group in groupby(choices, lambda choice: "Your models" if choice.is_configured else choice.provider):
        yield heading_row(sanitise_line(title))
        for choice in group:
            yield PanelRow(
                choice.model,
                model_line(choice, choice.model == current_model),
                plain_model_line(choice, current_model),
                f"{choice.model} {'' if choice.has_key else 'no key'}",
                model_details(choice, current_model, used_tokens),
            )


def available_models(
    settings: "Settings | None", current_model: str, names: Sequence[str]
) -> tuple[Sequence[ModelChoice], Callable[[str], ModelChoice]]:
    """Get the models to choose from, and a function that describes any other model. `names`: models to offer if there
    are no settings."""
    if settings is None:
        return [
            ModelChoice(name) for name in dict.fromkeys((*([current_model] if current_model else []), *names))
        ], ModelChoice
    config, environment = settings.config, settings.environment
    choices = list_model_choices(config, environment, (current_model,) if current_model else ())
    return choices, lambda model: describe_model(model, config, environment)


def plain_model_line(choice: ModelChoice, current_model: str) -> str:
    """Format a model as one line for line mode."""
    phrases = [choice.model + (" (in use)" if choice.model == current_model else "")]
    if choice.window_tokens is not None:
        phrases.append(f"window {format_tokens(choice.window_tokens)}")
    if prices := choice.prices:
        cache_read = _price_text(prices.cache_read)
        phrases.append(f"in {_price_text(prices.input)}, out {_price_text(prices.output)}, cache read {cache_read}")
    if features := _supported_features(choice):
        phrases.append(f"supports {features}")
    if not choice.has_key:
        phrases.append("no key")
    return sanitise_line("; ".join(phrases))


def model_line(choice: ModelChoice, is_current: bool) -> Line:
    name = ellipsize(sanitise_line(choice.model), 28)
    prices = choice.prices
    cells = ["" if choice.window_tokens is None else format_tokens(choice.window_tokens)]
    if prices is None:
        cells += [""] * 3
    else:
        cells += [_price_text(price) for price in (prices.input, prices.output, prices.cache_read)]
    style: TextStyle = "strong" if is_current else "text" if choice.has_key else "dim"
    return (
        ("● " if is_current else "  ", "good"),
        (f"{name:<28}", style),
        ("".join(f"{cell:>8}" for cell in cells), "text" if choice.has_key else "dim"),
        (f"  {_supported_features(choice)}", "dim"),
        ("" if choice.has_key else "  no key", "warn"),
    )


def model_details(choice: ModelChoice, current_model: str, used_tokens: int) -> tuple[Line, ...]:
    lines: list[Line] = []
    if features := _supported_features(choice):
        lines.append(((f"supports {features}", "dim"),))
    if prices := choice.prices:
        read, write = _price_text(prices.cache_read), _price_text(prices.cache_write)
        prices_text = (
            f"in {_price_text(prices.input)}, out {_price_text(prices.output)}, cache read {read}, cache write {write}"
        )
        lines.append(((f"$ per million tokens: {prices_text}", "dim"),))
        if prices.long_above is not None and prices.long_input is not None and prices.long_output is not None:
            long_prices = f"in {_price_text(prices.long_input)}, out {_price_text(prices.long_output)}"
            lines.append(((f"above {format_tokens(prices.long_above)} tokens per request: {long_prices}", "dim"),))
    else:
        lines.append((("price unknown", "dim"),))
    if not choice.has_key:
        lines.append(((f"no API key: add one with `/key {choice.model.partition('/')[0]}`", "warn"),))
    if choice.model != current_model:
        lines.append(((switch_cost_text(choice, used_tokens), "text"),))
    return tuple(lines)


def switch_cost_text(choice: ModelChoice, used_tokens: int) -> str:
    """Write a sentence about what switching to the model costs."""
    if not used_tokens:
        return "no messages yet: switching is free"
    cost = switch_cost(choice, used_tokens)
    price = "price unknown" if cost is None else f"≈ {format_dollars(cost)}" if cost else "free"
    return f"switching resends about {format_tokens(used_tokens)} uncached tokens ({price})"


def _price_text(price: float) -> str:
    return "0" if not price else f"{price:.3g}" if price < 0.1 else f"{price:.2f}"


def _supported_features(choice: ModelChoice) -> str:
    """List what a model supports; empty if that is unknown."""
    features = (
        ("tools", choice.supports_tools),
        ("images", choice.supports_images),
        ("thinking", choice.supports_thinking),
    )
    if all(is_supported is None for _, is_supported in features):
        return ""
    return ", ".join(name for name, is_supported in features if is_supported) or "text"


async def choose_model(context: CommandContext, name: str) -> None:
    session = context.controller.session
    current_model = session.model if session is not None else ""
    is_started = session is not None and bool(session.history.messages)
    if not name or (is_started and name != current_model):  # show the cost before switching models
        name = await pick_model(context, current_model, name, needs_confirmation=is_started)
    if not name or name == current_model:
        return
    if await context.controller.open(session_id=session.id if session is not None and is_started else None, model=name):
        context.show_session()
        context.controller.show_notice(f"the model is now {name}")


async def pick_model(
    context: CommandContext, current_model: str, search_text: str, *, needs_confirmation: bool = False
) -> str:
    """Let the user choose a listed model or type another. Returns an empty string if none was chosen.
    `needs_confirmation`: whether switching costs money."""
    choices, describe = available_models(
        context.settings, current_model, context.controller.sessions.available_models()
    )
    choice = await context.show(
        build_models_panel(
            choices,
            describe,
            current_model,
            context.controller.view.used_tokens,
            search_text,
            needs_confirmation=needs_confirmation,
        )
    )
    return choice.value if choice is not None else ""
