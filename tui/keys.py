"""The key table of the main screen: key, action and the line in `/help`."""

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class KeyBinding:
    keys: str
    """As Textual names them, separated by commas; empty if the prompt itself handles the key."""
    label: str
    action: str
    """An action of the app, or with the prefix `main.` of the main screen."""
    help: str
    wins: bool = False
    """Whether it takes precedence over the prompt's own use of the key."""


KEYS: tuple[KeyBinding, ...] = (
    KeyBinding("", "Enter", "", "send; while it works, for its next step"),
    KeyBinding("", "Ctrl-J, Shift-Enter, Alt-Enter, \\ Enter", "", "a new line"),
    KeyBinding("", "Up, Down", "", "messages that wait, then older ones"),
    KeyBinding("ctrl+r", "Ctrl-R", "command('history')", "find an earlier message"),
    KeyBinding("ctrl+g", "Ctrl-G", "command('editor')", "write in your editor"),
    KeyBinding("", "/", "", "commands; Tab completes"),
    KeyBinding("", "@", "", "attach files, folders, `@a.py:10-50`"),
    KeyBinding("", "!", "", "run a command for the model to see"),
    KeyBinding("", "#", "", "`# TEXT` is remembered for later sessions"),
    KeyBinding("escape", "Esc", "escape", "interrupt; what waits comes back"),
    KeyBinding("pageup", "PgUp", "main.page(-1)", "scroll up"),
    KeyBinding("pagedown", "PgDn", "main.page(1)", "scroll down"),
    KeyBinding("ctrl+home", "Home, Ctrl-Home", "main.scroll_to_start", "to the start (Home in an empty prompt)"),
    KeyBinding("ctrl+end", "End, Ctrl-End", "main.scroll_to_end", "to the end (End in an empty prompt)"),
    KeyBinding("ctrl+up,alt+up", "Ctrl-Up, Alt-Up", "main.jump(-1)", "to your previous message"),
    KeyBinding("ctrl+down,alt+down", "Ctrl-Down, Alt-Down", "main.jump(1)", "to your next message"),
    KeyBinding("ctrl+f", "Ctrl-F", "main.find", "find words in the conversation", True),
    KeyBinding("ctrl+o", "Ctrl-O", "main.cycle_detail", "show less or more of the work; at a paste: unfold it"),
    KeyBinding("", "Ctrl-V", "", "a picture from the clipboard"),
    KeyBinding(
        "ctrl+t",
        "Ctrl-T",
        "main.focus_transcript",
        "move through it with Up, Down: Enter, `y` copies, `Y` the last answer, `s` stops an agent",
    ),
    KeyBinding("f3", "F3", "command('todos')", "the list that the model works through"),
    KeyBinding("ctrl+p", "Ctrl-P", "command('commands')", "everything that can be done, in one list", True),
    KeyBinding("f4", "F4", "command('diff')", "what the last turn changed in files"),
    KeyBinding("ctrl+x", "Ctrl-X", "command('context')", "what fills the window, and what to do about it", True),
    KeyBinding("", "Shift-Tab", "", "the next mode: ask, accept-edits, plan"),
    KeyBinding("f1", "F1, ?", "command('help')", "this help (? in an empty prompt)"),
    KeyBinding("f5", "F5", "command('panel')", "the panel beside the conversation: show it or not"),
    KeyBinding("f2", "F2", "command('print')", "print all of it into the terminal's scrollback"),
    KeyBinding("", "Ctrl+_, Ctrl-Y", "", "undo, redo in the prompt"),
    KeyBinding("ctrl+z", "Ctrl-Z", "suspend", "back to the shell; `fg` goes on", True),
    KeyBinding(
        "ctrl+c", "Ctrl-C", "copy_or_leave", "copy a selection, else clear the prompt, else stop; twice: leave", True
    ),
    KeyBinding("", "Ctrl-D", "", "leave, from an empty prompt; while it works: twice"),
)
