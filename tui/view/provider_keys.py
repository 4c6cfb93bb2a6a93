"""The panel for entering API keys."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import AskForText, Outcome, Panel, PanelAction, PanelRow, RowChosen


def key_question(provider_of: Callable[[PanelRow], str]) -> AskForText:
    """The hidden input for a key."""
    return AskForText(
        lambda row: "",
        "Enter tries it with one short request and keeps it   Esc cancels",
        "The key, which is not shown; an empty line cancels: ",
        placeholder=lambda row: f"the key for {provider_of(row)}: type or paste it, it is not shown",
        is_hidden=True,
        meanwhile="trying the key …",
    )


def keys_panel(
    providers: Sequence[str],
    variables: Mapping[str, str],
    enter: Callable[[str, str], Awaitable[None]],
    words: str = "",
) -> Panel:
    """`variables`: the environment variable with a provider's key, or empty. `enter` tests and stores a key. Raises
    `AgentError`."""

    async def take(row: PanelRow, key: str) -> Outcome:
        await enter(row.value, key)
        return RowChosen(row.value)

    return Panel(
        "key",
        ((("Replace an API key", "accent"),),),
        tuple(_row(name, variables.get(name, "")) for name in providers),
        "Up, Down   Enter types a key   Esc cancels",
        actions=(PanelAction(("enter",), "key", take, asks=key_question(lambda row: row.value)),),
        words=words,
    )


def _row(name: str, variable: str) -> PanelRow:
    said = f"the key in {variable} is in use" if variable else "type or paste a key"
    line: Line = (("  ", "text"), (f"{name:<14} ", "text"), (said, "dim"))
    return PanelRow(name, line, searched=name)
