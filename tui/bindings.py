"""Converts the key table to Textual bindings."""

from textual.binding import Binding, BindingType

from ebbtide.tui.keys import KEYS


def bindings(owner: str) -> list[BindingType]:
    """Get the bindings whose action belongs to `owner`, which is `app` or the part of the action's name before the
    dot."""
    return [
        Binding(key.keys, action, key.help, show=False, priority=key.has_priority)
        for key in KEYS
        for prefix, _, action in [key.action.rpartition(".")]
        if key.keys and (prefix or "app") == owner
    ]
