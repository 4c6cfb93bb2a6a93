"""What somebody can do who starts for the first time, as lines."""

from collections.abc import Sequence

from agent.config.settings import Settings
from agent.providers.first_run import KeyFound
from agent.providers.setup import FIRST_CHOICE
from tui.text.inks import Line
from tui.text.sanitise import visible_line
from tui.view.panel import Outcome, Panel, PanelAction, PanelRow, Taken, Told, heading

DEMO, CHOOSE = "demo", "choose"
USE, WITH_KEY, TELL = "use:", "key:", "tell:"
"""How the values begin of what can be chosen: a model, a provider with the variable of its key, something to read."""

_AGAIN = "then start `ebb` again"


def chosen_by_key(model: str, settings: Settings | None) -> tuple[str, ...]:
    """Why a session has its model, where nobody has named one: a key did; and how to name another."""
    if settings is None or settings.config.model is not None:
        return ()
    keys = [variable for variable, _ in FIRST_CHOICE if settings.environment.get(variable)]
    chosen = next((variable for variable, usual in FIRST_CHOICE if variable in keys and usual == model), None)
    if chosen is None:
        return ()
    others = [variable for variable in keys if variable != chosen]
    too = f"; {', '.join(others)} is set, too" if others else ""
    return (f"{chosen} chose the model{too}", "/model switches to another, /settings agent.model keeps one")


def first_panel(keys: Sequence[KeyFound], local: Sequence[str] | None, file: str) -> Panel:
    """What there is, what is needed, and a way on. `file`: where the choice is written."""

    async def take(row: PanelRow, _: str) -> Outcome:
        if row.value.startswith(TELL):
            return Told("Do this outside of Ebbtide first.", "warn")
        return Taken(row.value)

    said = f"  choose a model once; it is written to {file}"
    return Panel(
        "first-run",
        ((("Welcome to Ebbtide", "strong"), (said, "dim")),),
        first_steps(keys, local),
        "Up, Down   Enter goes on   Esc cancels",
        empty="Nothing like it.",
        actions=(PanelAction(("enter",), "take", take),),
    )


def first_steps(keys: Sequence[KeyFound], local: Sequence[str] | None) -> tuple[PanelRow, ...]:
    """`local`: the models of a server on this machine; None when none answers."""
    entries: list[PanelRow] = [heading("Go on with")]
    for name in local or ():
        entries.append(_entry(f"{USE}ollama/{name}", f"ollama/{name}", "on this machine, free of charge"))
    for key in keys:
        what = f"its key is in {key.variable}"
        entries.append(_entry(f"{WITH_KEY}{key.provider}:{key.variable}", key.provider, what))
    name = "another model" if local or keys else "a model by its name"
    entries.append(_entry(CHOOSE, name, "PROVIDER/NAME, from the list or as you write it"))
    entries.append(_entry(DEMO, "the demo", "a scripted model mends a real bug, without a key"))
    entries.append(heading(f"What a model needs, {_AGAIN}"))
    for variable, model in FIRST_CHOICE:
        provider = model.partition("/")[0]
        said, advice = f"a key: ebb key set {provider}", f"ebb key set {provider}, or export {variable}=…   {_AGAIN}"
        entries.append(_entry(f"{TELL}{provider}", provider, said, advice))
    if local is None:
        advice = f"install it from ollama.com, then `ollama pull qwen3`, {_AGAIN}"
        entries.append(_entry(f"{TELL}ollama", "ollama", "a server on this machine: none answers", advice))
    elif not local:
        entries.append(_entry(f"{TELL}ollama", "ollama", "a model: ollama pull qwen3", f"ollama pull qwen3   {_AGAIN}"))
    advice = 'in config.toml: [providers.openai-chat] base_url = "https://…/v1" and api_key_env = "NAME"'
    entries.append(_entry(f"{TELL}other", "another server", "any that speaks as OpenAI's chat API does", advice))
    return tuple(entries)


def _entry(value: str, name: str, said: str, about: str = "") -> PanelRow:
    name, said = visible_line(name), visible_line(said)
    line: Line = (("  ", "text"), (f"{name:<24}", "text"), (said, "dim"))
    return PanelRow(value, line, searched=f"{name} {said}", about=(((about, "text"),),) if about else ())
