"""The key table as Textual bindings."""

from textual.binding import Binding, BindingType

from ebbtide.tui.keys import KEYS


def bindings(home: str) -> list[BindingType]:
    """The bindings whose action belongs to `home`: `app`, or the prefix before the dot in the action's name."""
    return [
        Binding(key.keys, action, key.help, show=False, priority=key.wins)
        for key in KEYS
        for at, _, action in [key.action.rpartition(".")]
        if key.keys and (at or "app") == home
    ]
