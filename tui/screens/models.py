"""The list of models. It knows their names and nothing of their providers."""

from collections.abc import Sequence

from tui.screens.picker import Choice, Picker


def model_picker(models: Sequence[str], current: str) -> Picker:
    """Gives a model's name, which may be one that is not in the list, or an empty text."""
    listed = dict.fromkeys((current, *models) if current else models)
    choices = [Choice(value=name, label=name, own=name == current) for name in listed]
    return Picker("Go on with a model", choices, "Not in the list: Enter takes it as it is (provider/name).", free=True)
