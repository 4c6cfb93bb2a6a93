"""What is offered while a command is typed."""

from ebbtide.tui.slash_commands import COMMANDS
from ebbtide.tui.widgets.completions import shorten_to_phrase


def test_a_description_that_does_not_fit_ends_with_a_whole_phrase() -> None:
    text = "go back to one of your messages: fork the conversation, restore files, or both"
    assert shorten_to_phrase(text, 80) == text
    assert shorten_to_phrase(text, 60) == "go back to one of your messages"
    assert shorten_to_phrase("show a (long) list; or two", 20) == "show a (long) list"
    assert shorten_to_phrase("one long phrase that does not fit", 10) == "one long phrase that does not fit"


def test_descriptions_of_commands_fit_on_a_small_screen() -> None:
    assert [command.name for command in COMMANDS if len(shorten_to_phrase(command.help, 52)) > 52] == []
