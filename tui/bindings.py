"""The table of keys as Textual wants it."""

from textual.binding import Binding, BindingType

from ebbtide.tui.keys import KEYS


def bindings(home: str) -> list[BindingType]:
    """The keys whose action is at home there: `app`, or what an action's name begins with and a dot."""
    return [
        Binding(key.keys, action, key.help, show=False, priority=key.wins)
        for key in KEYS
        for at, _, action in [key.action.rpartition(".")]
        if key.keys and (at or "app") == home
    ]
