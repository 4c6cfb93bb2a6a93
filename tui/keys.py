"""The key table of the main screen: each key with its action and its line in `/help`."""

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class KeyBinding:
    keys: str
    """Textual's key names, separated by commas. Empty if the prompt itself handles the key."""
    label: str
    action: str
    """A Textual action of the app, or of the main screen if it starts with `main.`."""
    help: str
    has_priority: bool = False
    """Whether this binding overrides the prompt's own."""


KEYS: tuple[KeyBinding, ...] = (
    KeyBinding("", "Enter", "", "send (while it works: delivered at the next step)"),
    KeyBinding("", "Ctrl-J, Shift-Enter, Alt-Enter, \\ Enter", "", "start a new line"),
    KeyBinding("", "Up, Down", "", "queued messages, then history"),
    KeyBinding("ctrl+r", "Ctrl-R", "command('history')", "search your earlier messages"),
    KeyBinding("ctrl+g", "Ctrl-G", "command('editor')", "write in your editor"),
    KeyBinding("", "/", "", "commands; Tab completes"),
    KeyBinding("", "@", "", "attach files, folders, `@a.py:10-50`"),
    KeyBinding("", "!", "", "run a command and show it to the model"),
    KeyBinding("", "#", "", "save a note for later sessions"),
    KeyBinding("escape", "Esc", "escape", "interrupt; queued messages return to the prompt"),
    KeyBinding("pageup", "PgUp", "main.page(-1)", "scroll up"),
    KeyBinding("pagedown", "PgDn", "main.page(1)", "scroll down"),
    KeyBinding("ctrl+home", "Home, Ctrl-Home", "main.scroll_to_start", "scroll to the start (Home in an empty prompt)"),
    KeyBinding("ctrl+end", "End, Ctrl-End", "main.scroll_to_end", "scroll to the end (End in an empty prompt)"),
    KeyBinding("ctrl+up,alt+up", "Ctrl-Up, Alt-Up", "main.jump(-1)", "jump to your previous message"),
    KeyBinding("ctrl+down,alt+down", "Ctrl-Down, Alt-Down", "main.jump(1)", "jump to your next message"),
    KeyBinding("ctrl+f", "Ctrl-F", "main.find", "find text in the conversation", True),
    KeyBinding(
        "ctrl+o", "Ctrl-O", "main.cycle_detail", "cycle detail (full, one line per call, normal); on a paste: unfold it"
    ),
    KeyBinding("", "Ctrl-V", "", "paste an image from the clipboard"),
    KeyBinding(
        "ctrl+t",
        "Ctrl-T",
        "main.focus_transcript",
        "browse the conversation: Up, Down, Enter, `y` copy, `Y` copy last answer, `s` stop agent",
    ),
    KeyBinding("f3", "F3", "command('todos')", "show the model's to-do list"),
    KeyBinding("ctrl+p", "Ctrl-P", "command('commands')", "open the command palette", True),
    KeyBinding("f4", "F4", "command('diff')", "show file changes of the last turn"),
    KeyBinding("ctrl+x", "Ctrl-X", "command('context')", "show what fills the context window, and free space", True),
    KeyBinding("", "Shift-Tab", "", "next mode: ask, accept-edits, plan"),
    KeyBinding("f1", "F1, ?", "command('help')", "show this help (? in an empty prompt)"),
    KeyBinding("f5", "F5", "command('panel')", "show or hide the side panel"),
    KeyBinding("f2", "F2", "command('print')", "print the conversation to the terminal's scrollback"),
    KeyBinding("", "Ctrl+_, Ctrl-Y", "", "undo and redo in the prompt"),
    KeyBinding("ctrl+z", "Ctrl-Z", "suspend", "suspend to the shell; `fg` returns", True),
    KeyBinding(
        "ctrl+c", "Ctrl-C", "copy_or_leave", "copy the selection, clear the prompt or stop the turn; twice: quit", True
    ),
    KeyBinding("", "Ctrl-D", "", "quit (empty prompt); twice while it works"),
)
