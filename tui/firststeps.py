"""What somebody can do who starts for the first time, as lines. It knows what was found, not how."""

from collections.abc import Sequence

from agent.first_run import KeyFound
from agent.providers.setup import FIRST_CHOICE
from tui.entries import Entry, heading
from tui.inks import Line
from tui.sanitise import visible_line

DEMO, CHOOSE = "demo", "choose"
USE, WITH_KEY, TELL = "use:", "key:", "tell:"
"""How the values begin of what can be chosen: a model, a provider with the variable of its key, something to read."""


def first_steps(keys: Sequence[KeyFound], local: Sequence[str] | None) -> tuple[Entry, ...]:
    """`local`: the models of a server on this machine; None when none answers."""
    entries: list[Entry] = [heading("Go on with")]
    for name in local or ():
        entries.append(_entry(f"{USE}ollama/{name}", f"ollama/{name}", "on this machine, for nothing"))
    for key in keys:
        what = f"its key is in {key.variable}"
        entries.append(_entry(f"{WITH_KEY}{key.provider}:{key.variable}", key.provider, what))
    entries.append(_entry(CHOOSE, "another model", "PROVIDER/NAME, from the list or as you write it"))
    entries.append(_entry(DEMO, "the demo", "a scripted model mends a real bug: no key, no network"))
    entries.append(heading("What a model needs"))
    for variable, model in FIRST_CHOICE:
        provider = model.partition("/")[0]
        advice = f"export {variable}=…   then start `ebb` again"
        entries.append(_entry(f"{TELL}{provider}", provider, f"a key in {variable}", advice))
    running = "no server answers on this machine" if local is None else "no model is there yet"
    if not local:
        advice = "install it from ollama.com, then `ollama pull qwen3`, then start `ebb` again"
        entries.append(_entry(f"{TELL}ollama", "ollama", running, advice))
    advice = 'in config.toml: [providers.openai-chat] base_url = "https://…/v1" and api_key_env = "NAME"'
    entries.append(_entry(f"{TELL}other", "another server", "any that speaks as OpenAI's chat API does", advice))
    return tuple(entries)


def _entry(value: str, name: str, said: str, about: str = "") -> Entry:
    name, said = visible_line(name), visible_line(said)
    line: Line = (("  ", "text"), (f"{name:<24}", "text"), (said, "dim"))
    return Entry(value, line, f"{name} {said}", (((about, "text"),),) if about else ())
