"""The greeting of a new session: name, setup, recent sessions and a tip."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.providers.setup import DEFAULT_MODELS
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tools.lazy import regex
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import format_age, format_size
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, parse_inline_code, wrap_spans
from ebbtide.tui.view.sessions import NO_TITLE
from ebbtide.version import VERSION

LOGO = ("▄▀▀▄ █    █     ▄  ▀    █ ▄▀▀▄", "█▀▀▀ █▀▀▄ █▀▀▄ ▀█▀ █ ▄▀▀█ █▀▀▀", "▀▄▄▀ █▄▄▀ █▄▄▀  █▄ █ ▀▄▄█ ▀▄▄▀")
PROGRAM_NAME = "Ebbtide"
MAX_LISTED_SESSIONS = 3
"""Maximum number of recent sessions shown."""
SUGGESTED_MESSAGE = "find out why the tests fail and fix them"
"""The message to suggest if there is no recent session."""
HELP_HINT = "`/help` shows keys and commands"
_LABEL_COLUMNS, _MIN_LABELLED_WIDTH = 9, 40
"""Width of a label, and the minimum screen width for the last line to have one."""
_MAX_TITLE_COLUMNS = 56

_SCREEN_ONLY_KEY = regex(r"\b(?:Ctrl-|Shift-|Esc\b)")
"""Matches keys that do not exist in line mode."""
TIPS = (
    "`@` and a file name attaches that file; `@a.py:10-50` only those lines",
    "a line that starts with `!` runs in your shell, and the model sees its output",
    "`# TEXT` saves a note for later sessions",
    "Ctrl-X shows what fills the context window and what it costs, and removes what you don't need",
    "press Esc twice to go back to an earlier message, and to restore files as well",
    "messages sent while it works are delivered at the next step; `/later` waits for the end of the turn",
    "`/undo` reverts the last turn's file changes, after a preview",
    "Ctrl-O shows more or less detail; Enter or a click opens a single call",
    "`/why TEXT` finds text that the model seems to have forgotten, and puts it back into context",
    "Shift-Tab cycles through the modes: ask, accept-edits, plan",
    "Ctrl-P searches commands, sessions, models, themes and settings",
    "`/theme` offers twelve themes and previews each one",
    "Ctrl-F searches the whole conversation, including collapsed blocks",
    "`/fork` continues in a copy and leaves this session unchanged",
)


@dataclass(frozen=True, slots=True)
class Greeting:
    model: str
    folder: str
    branch: str = ""
    mode: str = ""
    instruction_files: tuple[tuple[str, int], ...] = ()
    """Instruction files and their sizes in bytes."""
    advice: tuple[str, ...] = ()
    """Notes about the model and the terminal size."""
    sessions: tuple[SessionInfo, ...] = ()
    """Recent sessions, newest first."""
    tip: str = ""
    now: float = 0.0
    """Current time in Unix seconds."""


def build_greeting_lines(
    greeting: Greeting, width: int, height: int, *, supports_unicode: bool = True
) -> tuple[Line, ...]:
    """Build the greeting for a screen of this size. If there is too little space, the least useful lines are dropped
    first. `supports_unicode`: whether the terminal can draw non-ASCII characters."""
    name_line: Line = ((PROGRAM_NAME, "accent"), (f"  {VERSION}", "dim"))
    logo_lines: list[Line] = [((line, "accent"),) for line in LOGO]
    logo_lines[-1] = (*logo_lines[-1], (f"  {VERSION}", "dim"))
    logo = tuple(logo_lines) if supports_unicode and width >= len(LOGO[-1]) + len(VERSION) + 2 else (name_line,)

    def labelled_lines(label: str, spans: Line) -> tuple[Line, ...]:
        return wrap_spans(((label.ljust(_LABEL_COLUMNS), "dim"), *spans), width, _LABEL_COLUMNS)

    setup_lines = tuple(line for label, spans in _setup_rows(greeting) for line in labelled_lines(label, spans))
    session_lines = _session_lines(greeting, width)
    tip_lines = labelled_lines("tip", parse_inline_code(greeting.tip, "text")) if greeting.tip else ()
    tip_lines = tip_lines if greeting.sessions else (*labelled_lines("try", ((SUGGESTED_MESSAGE, "text"),)), *tip_lines)
    help_lines = (
        labelled_lines("more", parse_inline_code(HELP_HINT, "text"))
        if width >= _MIN_LABELLED_WIDTH
        else (parse_inline_code(HELP_HINT, "dim"),)
    )
    for layout in (
        (logo, setup_lines, session_lines, (*tip_lines, *help_lines)),
        (logo, setup_lines, session_lines, help_lines),
        (logo, setup_lines, help_lines),
        ((name_line, *setup_lines, *help_lines),),
        ((name_line, *help_lines),),
    ):
        blocks = [section for section in layout if section]
        if sum(map(len, blocks)) + len(blocks) <= height:
            break
    lines: tuple[Line, ...] = ()
    for block in blocks:
        lines = (*lines, ((" ", "text"),), *block) if lines else block
    return lines


def centred_greeting(greeting: Greeting, width: int, height: int, *, supports_unicode: bool = True) -> tuple[Line, ...]:
    """Build the part of the greeting that is above a centred prompt on a large screen. `lines_below_prompt` builds the
    rest."""
    if not supports_unicode:
        return build_greeting_lines(greeting, width, height, supports_unicode=False)
    logo = tuple(_centre(((line, "accent"),), width, len(LOGO[0])) for line in LOGO)
    setup_lines = (
        *_setup_lines(greeting, width),
        *(_centre(parse_inline_code(sanitise_line(line), "dim"), width) for line in greeting.advice),
    )
    blocks = (logo, setup_lines, _session_lines(greeting, width))
    lines: tuple[Line, ...] = ()
    for block in blocks:
        if block:
            lines = (*lines, ((" ", "text"),), *block) if lines else block
    return lines if len(lines) < height else build_greeting_lines(greeting, width, height)


def lines_below_prompt(greeting: Greeting, width: int) -> tuple[Line, ...]:
    """Build the lines below a centred prompt: keys and suggestions."""
    key_line: Line = (("/help", "text"), (" keys and commands", "dim"), ("   Ctrl-P", "text"), (" everything", "dim"))
    hint: Line = (("try  ", "accent"), (SUGGESTED_MESSAGE, "dim"))
    if greeting.sessions:
        hint = (("tip  ", "accent"), *parse_inline_code(greeting.tip, "dim")) if greeting.tip else ()
    hints = wrap_spans(hint, width, 5) if hint else ()
    hints = tuple(_centre(line, width) for line in hints) if len(hints) == 1 else hints
    return (_centre(key_line, width), *((((" ", "text"),), *hints) if hints else ()))


def _setup_lines(greeting: Greeting, width: int) -> tuple[Line, ...]:
    """Format the model, folder, branch and instruction files in one or two lines."""
    model: Line = ((f"{VERSION}   ", "dim"), (sanitise_line(greeting.model), "text"))
    folder: Line = ((sanitise_line(greeting.folder), "dim"),)
    if greeting.branch:
        folder = (*folder, ("  ", "dim"), (sanitise_line(greeting.branch), "accent"))
    if greeting.instruction_files:
        folder = (*folder, (f"  {', '.join(sanitise_line(name) for name, _ in greeting.instruction_files)}", "dim"))
    single_line: Line = (*model, ("   ", "dim"), *folder)
    return (
        (_centre(single_line, width),)
        if _line_width(single_line) <= width
        else (_centre(model, width), _centre(folder, width))
    )


def _centre(line: Line, width: int, line_width: int | None = None) -> Line:
    """Centre a line. `line_width`: the width to assume for the line, in place of its actual width."""
    margin = width - (_line_width(line) if line_width is None else line_width)
    return ((" " * (margin // 2), "text"), *line) if margin > 1 else line


def _line_width(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def indent_lines(lines: Sequence[Line], columns: int) -> tuple[Line, ...]:
    """Indent the lines."""
    return tuple(((" " * columns, "text"), *line) for line in lines) if columns else tuple(lines)


def _setup_rows(greeting: Greeting) -> tuple[tuple[str, Line], ...]:
    """Format the model, folder and instruction files as labelled lines."""
    branch: Line = ((f"   {sanitise_line(greeting.branch)}", "accent"),) if greeting.branch else ()
    file_names = ", ".join(sanitise_line(name) for name, _ in greeting.instruction_files)
    return (
        ("model", ((sanitise_line(greeting.model), "text"),)),
        *(("", parse_inline_code(sanitise_line(line), "dim")) for line in greeting.advice),
        ("folder", ((sanitise_line(greeting.folder), "text"), *branch)),
        *((("read", ((file_names, "text"),)),) if file_names else ()),
    )


def _session_lines(greeting: Greeting, width: int) -> tuple[Line, ...]:
    if not greeting.sessions:
        return ()
    heading: Line = (("resume", "dim"), ("   type a number, or ", "dim"), ("/resume", "code"), (" for all", "dim"))
    title_width = max(8, min(_MAX_TITLE_COLUMNS, width - 24))
    return (
        heading,
        *(
            (
                (f"  {number}  ", "accent"),
                (f"{fit_width(session_title(info), title_width)}  ", "text"),
                (_session_age(greeting, info), "dim"),
            )
            for number, info in enumerate(greeting.sessions, 1)
        ),
    )


def session_title(info: SessionInfo) -> str:
    return sanitise_line(info.title) or NO_TITLE


def _session_age(greeting: Greeting, info: SessionInfo) -> str:
    return format_age(greeting.now - info.updated_at)


def plain_greeting(greeting: Greeting) -> tuple[str, ...]:
    """Format the greeting as a few sentences for line mode."""
    branch = f", branch {sanitise_line(greeting.branch)}" if greeting.branch else ""
    file_names = [
        f"{sanitise_line(name)} ({format_size(byte_count)})" for name, byte_count in greeting.instruction_files
    ]
    introduction = (
        f"{PROGRAM_NAME} {VERSION} in {sanitise_line(greeting.folder)}{branch}, model {sanitise_line(greeting.model)}"
    )
    status = f"{introduction}, mode {greeting.mode}." + (f" Read {', '.join(file_names)}." if file_names else "")
    numbered_sessions = [
        f"{number} {session_title(info)} ({_session_age(greeting, info)})"
        for number, info in enumerate(greeting.sessions, 1)
    ]
    session_lines = (f"Resume by number: {'; '.join(numbered_sessions)}.",) if numbered_sessions else ()
    tip = f"Tip: {greeting.tip}. " if greeting.tip and not _SCREEN_ONLY_KEY.search(greeting.tip) else ""
    return (status, *greeting.advice, *session_lines, f"{tip}`/help` lists commands.")


def tip_of_the_day(day: int, session_count: int) -> str:
    """Choose the tip of the day, based on the date and the number of sessions."""
    return TIPS[(day + session_count) % len(TIPS)]


def session_by_number(text: str, sessions: Sequence[SessionInfo]) -> SessionInfo | None:
    """Find the session whose number the user typed; None if the text is anything else."""
    number = text.strip()
    return sessions[int(number) - 1] if number in map(str, range(1, len(sessions) + 1)) else None


def build_model_choice_notes(model: str, settings: Settings | None) -> tuple[str, ...]:
    """If the model was chosen because of an API key, say which key and how to change the model. Empty if the model was
    configured."""
    if settings is None or settings.config.model is not None:
        return ()
    set_variables = [variable for variable, _ in DEFAULT_MODELS if settings.environment.get(variable)]
    chosen_variable = next(
        (
            variable
            for variable, default_model in DEFAULT_MODELS
            if variable in set_variables and default_model == model
        ),
        None,
    )
    if chosen_variable is None:
        return ()
    other_variables = [variable for variable in set_variables if variable != chosen_variable]
    others_note = (
        f" ({', '.join(other_variables)} {'is' if len(other_variables) == 1 else 'are'} also set)"
        if other_variables
        else ""
    )
    return (f"model chosen by {chosen_variable}{others_note}", "/model switches, /settings agent.model sets a default")
