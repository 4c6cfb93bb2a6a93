"""The list shown on the first start."""

from collections.abc import Awaitable, Callable, Sequence

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.providers.first_run import KeyFound, LocalModelServer
from ebbtide.agent.providers.setup import FIRST_CHOICE
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, parse_inline_code
from ebbtide.tui.view.panel import Outcome, Panel, PanelAction, PanelRow, RowChosen, heading
from ebbtide.tui.view.provider_keys import key_question

DEMO, CHOOSE = "demo", "choose"
MODEL_PREFIX, LOCAL_PREFIX, KEY_PREFIX, ENTER_KEY_PREFIX = "use:", "served:", "key:", "give:"
"""Prefixes of the row values: a model, a model of another local server, a provider with the variable of its key, a
provider whose key is to be entered."""

OLLAMA = "Ollama"
_THEN_ENTER = "then press Enter here to look again"
LOOK_AGAIN = "again:"
"""Prefix of values for steps outside the program, after which the list is refreshed."""


def chosen_by_key(model: str, settings: Settings | None) -> tuple[str, ...]:
    """Why a session has its model if it was selected by an API key, and how to change it."""
    if settings is None or settings.config.model is not None:
        return ()
    keys = [variable for variable, _ in FIRST_CHOICE if settings.environment.get(variable)]
    chosen = next((variable for variable, usual in FIRST_CHOICE if variable in keys and usual == model), None)
    if chosen is None:
        return ()
    others = [variable for variable in keys if variable != chosen]
    too = f"; {', '.join(others)} is set, too" if others else ""
    return (f"{chosen} chose the model{too}", "/model switches to another, /settings agent.model keeps one")


def first_panel(
    keys: Sequence[KeyFound],
    local: Sequence[LocalModelServer],
    file: str,
    hand_over: Callable[[str, str], Awaitable[None]],
    said: str = "",
) -> Panel:
    """The models and keys found, and ways to set one up. `file`: where the choice is saved. `hand_over` tests and
    stores a provider's key; `said` is shown above the list. Raises `AgentError`."""

    async def take(row: PanelRow, _: str) -> Outcome:
        return RowChosen(row.value)

    async def take_key(row: PanelRow, key: str) -> Outcome:
        provider = row.value.removeprefix(ENTER_KEY_PREFIX)
        await hand_over(provider, key)
        return RowChosen(f"{KEY_PREFIX}{provider}:")

    def is_key(row: PanelRow) -> bool:
        return row.value.startswith(ENTER_KEY_PREFIX)

    asks = key_question(lambda row: row.value.removeprefix(ENTER_KEY_PREFIX))
    what: Line = (("Choose the model that it works with", "text"), (f", once: kept in {sanitised_line(file)}", "dim"))
    again: tuple[Line, ...] = (((said, "warn"),),) if said else ()
    return Panel(
        "first-run",
        ((("Welcome to Ebbtide", "accent"), ("  a coding agent in your terminal", "dim")), what, *again),
        first_steps(keys, local),
        "Up, Down   Enter goes on   Esc cancels",
        empty="Nothing matches.",
        actions=(
            PanelAction(("enter",), "take", take, can=lambda row: not is_key(row)),
            PanelAction(("enter",), "key", take_key, can=is_key, asks=asks),
        ),
    )


def first_steps(keys: Sequence[KeyFound], local: Sequence[LocalModelServer]) -> tuple[PanelRow, ...]:
    """The rows, existing models first. `local`: servers running on this machine."""
    with_key = (
        *map(_key_row, keys),
        *(_enter_key_row(variable, model.partition("/")[0]) for variable, model in FIRST_CHOICE),
    )
    here = tuple(_local_model_row(at, server, name) for at, server in enumerate(local) for name in server.models)
    advice = (
        'in config.toml: [providers.openai-chat] base_url = "https://…/v1" and api_key_env = "NAME"; then press Enter'
    )
    other = (
        _entry(CHOOSE, "another model", "PROVIDER/NAME, from the list or as you write it"),
        *_ollama(next((server for server in local if server.name == OLLAMA), None)),
        _entry(f"{LOOK_AGAIN}other", "another server", "any that speaks as OpenAI's chat API does", advice),
    )
    demo = (_entry(DEMO, "the demo", "a scripted model mends a real bug: one minute, nothing is sent"),)
    parts = (("With a key", with_key), ("On this machine", here))
    return tuple(
        row
        for words, part in (*(parts if keys else parts[::-1]), ("To see what it is like", demo), ("Others", other))
        if part
        for row in (heading(words), *part)
    )


def _key_row(key: KeyFound) -> PanelRow:
    return _entry(f"{KEY_PREFIX}{key.provider}:{key.variable}", key.provider, f"its key is in {key.variable}")


def _enter_key_row(variable: str, provider: str) -> PanelRow:
    about = f"it is tried, kept for you alone, and sent to {provider} only; {variable} works, too"
    return _entry(f"{ENTER_KEY_PREFIX}{provider}", provider, "type or paste its key", about)


def _local_model_row(at: int, server: LocalModelServer, name: str) -> PanelRow:
    is_ollama = server.name == OLLAMA
    value, shown = (
        (f"{MODEL_PREFIX}ollama/{name}", f"ollama/{name}") if is_ollama else (f"{LOCAL_PREFIX}{at}:{name}", name)
    )
    return _entry(value, shown, f"{server.name}, free of charge")


def _ollama(server: LocalModelServer | None) -> tuple[PanelRow, ...]:
    """How to get a model for Ollama if there is none."""
    if server is not None and server.models:
        return ()
    if server is not None:
        advice = f"`ollama pull qwen3` in another terminal, {_THEN_ENTER}"
        return (_entry(f"{LOOK_AGAIN}ollama", "ollama", "it has no model yet", advice),)
    advice = f"start it with `ollama serve` (from ollama.com) and get a model with `ollama pull qwen3`, {_THEN_ENTER}"
    return (_entry(f"{LOOK_AGAIN}ollama", "ollama", "not running on this machine", advice),)


def _entry(value: str, name: str, said: str, about: str = "") -> PanelRow:
    name, said = sanitised_line(name), sanitised_line(said)
    line: Line = (("  ", "text"), (f"{name:<24} ", "text"), (said, "dim"))
    return PanelRow(value, line, searched=f"{name} {said}", about=(parse_inline_code(about, "text"),) if about else ())
