"""The greeting of a new session: name, setup, recent sessions and one tip. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tools.version import VERSION
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import age, size
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, parse_inline_code, wrap_spans
from ebbtide.tui.view.sessions import NO_TITLE

MARK = ("▄▀▀▄ █    █     ▄  ▀    █ ▄▀▀▄", "█▀▀▀ █▀▀▄ █▀▀▄ ▀█▀ █ ▄▀▀█ █▀▀▀", "▀▄▄▀ █▄▄▀ █▄▄▀  █▄ █ ▀▄▄█ ▀▄▄▀")
NAME = "Ebbtide"
MAX_LISTED_SESSIONS = 3
"""Maximum recent sessions shown."""
TRY = "find out why the tests fail, and mend what is wrong"
"""Suggested message if there is no recent session."""
HELP = "`/help` shows keys and commands"
_LABEL, _MIN_LABELLED_WIDTH = 9, 40
"""Columns of a label, and minimum width for a label on the last line."""
_TITLE = 56

TIPS = (
    "`@` and the name of a file shows the model that file; `@a.py:10-50` some of its lines",
    "a line that begins with `!` is run in the shell, and the model sees what it printed",
    "`# TEXT` is remembered for later sessions",
    "Ctrl-X shows what fills the window, what each part costs, and takes out what is not needed",
    "Esc twice goes back to before one of your messages, the files with it if you want",
    "what you write while it works goes in at its next step; `/later` waits for the end of the turn",
    "`/undo` takes back what the last turn changed in files, after a look at it",
    "Ctrl-O shows less or more of the work; Enter or a click opens one call alone",
    "`/why TEXT` says where a text went that the model seems to have forgotten, and brings it back",
    "Shift-Tab goes through the modes: ask, accept-edits, plan",
    "Ctrl-P finds everything that can be done: commands, sessions, models, themes, settings",
    "`/theme` has twelve looks, each worn while it is marked",
    "Ctrl-F finds words in the whole conversation, and opens what is folded where they are",
    "`/fork` goes on in a copy, and the session stays as it is",
)


@dataclass(frozen=True, slots=True)
class Greeting:
    model: str
    folder: str
    branch: str = ""
    mode: str = ""
    read: tuple[tuple[str, int], ...] = ()
    """Instruction files with their size in bytes."""
    advice: tuple[str, ...] = ()
    """Remarks about the model."""
    sessions: tuple[SessionInfo, ...] = ()
    """Recent sessions, newest first."""
    tip: str = ""
    now: float = 0.0
    """Unix seconds."""


def greeting_lines(greeting: Greeting, width: int, height: int, *, can_draw: bool = True) -> tuple[Line, ...]:
    """The greeting for a screen size; the least useful lines are dropped first. `can_draw`: the terminal can draw
    more than letters."""
    name: Line = ((NAME, "accent"), (f"  {VERSION}", "dim"))
    drawn: list[Line] = [((line, "accent"),) for line in MARK]
    drawn[-1] = (*drawn[-1], (f"  {VERSION}", "dim"))
    mark = tuple(drawn) if can_draw and width >= len(MARK[-1]) + len(VERSION) + 2 else (name,)

    def told(label: str, said: Line) -> tuple[Line, ...]:
        return wrap_spans(((label.ljust(_LABEL), "dim"), *said), width, _LABEL)

    known = tuple(line for label, said in _labelled_lines(greeting) for line in told(label, said))
    sessions = _sessions(greeting, width)
    tip = told("tip", parse_inline_code(greeting.tip, "text")) if greeting.tip else ()
    tip = tip if greeting.sessions else (*told("try", ((TRY, "text"),)), *tip)
    ask = (
        told("more", parse_inline_code(HELP, "text"))
        if width >= _MIN_LABELLED_WIDTH
        else (parse_inline_code(HELP, "dim"),)
    )
    for parts in (
        (mark, known, sessions, (*tip, *ask)),
        (mark, known, sessions, ask),
        (mark, known, ask),
        ((name, *known, *ask),),
        ((name, *ask),),
    ):
        blocks = [part for part in parts if part]
        if sum(map(len, blocks)) + len(blocks) <= height:
            break
    lines: tuple[Line, ...] = ()
    for block in blocks:
        lines = (*lines, ((" ", "text"),), *block) if lines else block
    return lines


def greeting_in_the_middle(greeting: Greeting, width: int, height: int, *, can_draw: bool = True) -> tuple[Line, ...]:
    """The greeting above a centred prompt on a large screen. `below_greeting` goes below the prompt."""
    if not can_draw:
        return greeting_lines(greeting, width, height, can_draw=False)
    mark = tuple(_centre(((line, "accent"),), width, len(MARK[0])) for line in MARK)
    about = (
        *_about(greeting, width),
        *(_centre(parse_inline_code(sanitised_line(line), "dim"), width) for line in greeting.advice),
    )
    blocks = (mark, about, _sessions(greeting, width))
    lines: tuple[Line, ...] = ()
    for block in blocks:
        if block:
            lines = (*lines, ((" ", "text"),), *block) if lines else block
    return lines if len(lines) < height else greeting_lines(greeting, width, height)


def below_greeting(greeting: Greeting, width: int) -> tuple[Line, ...]:
    """The lines below a centred prompt: keys and suggestions."""
    keys: Line = (("/help", "text"), (" keys and commands", "dim"), ("   Ctrl-P", "text"), (" everything", "dim"))
    hint: Line = (("try  ", "accent"), (TRY, "dim"))
    if greeting.sessions:
        hint = (("tip  ", "accent"), *parse_inline_code(greeting.tip, "dim")) if greeting.tip else ()
    hints = wrap_spans(hint, width, 5) if hint else ()
    hints = tuple(_centre(line, width) for line in hints) if len(hints) == 1 else hints
    return (_centre(keys, width), *((((" ", "text"),), *hints) if hints else ()))


def _about(greeting: Greeting, width: int) -> tuple[Line, ...]:
    """The setup in one or two lines."""
    model: Line = ((f"{VERSION}   ", "dim"), (sanitised_line(greeting.model), "text"))
    place: Line = ((sanitised_line(greeting.folder), "dim"),)
    if greeting.branch:
        place = (*place, ("  ", "dim"), (sanitised_line(greeting.branch), "accent"))
    if greeting.read:
        place = (*place, (f"  {', '.join(sanitised_line(name) for name, _ in greeting.read)}", "dim"))
    whole: Line = (*model, ("   ", "dim"), *place)
    return (_centre(whole, width),) if _cells(whole) <= width else (_centre(model, width), _centre(place, width))


def _centre(line: Line, width: int, cells: int | None = None) -> Line:
    """Centre a line. `cells`: its width, if not its own."""
    room = width - (_cells(line) if cells is None else cells)
    return ((" " * (room // 2), "text"), *line) if room > 1 else line


def _cells(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def indent_lines(lines: Sequence[Line], columns: int) -> tuple[Line, ...]:
    """Indent the lines."""
    return tuple(((" " * columns, "text"), *line) for line in lines) if columns else tuple(lines)


def _labelled_lines(greeting: Greeting) -> tuple[tuple[str, Line], ...]:
    """The setup, with labels."""
    branch: Line = ((f"   {sanitised_line(greeting.branch)}", "accent"),) if greeting.branch else ()
    read = ", ".join(sanitised_line(name) for name, _ in greeting.read)
    return (
        ("model", ((sanitised_line(greeting.model), "text"),)),
        *(("", parse_inline_code(sanitised_line(line), "dim")) for line in greeting.advice),
        ("folder", ((sanitised_line(greeting.folder), "text"), *branch)),
        *((("read", ((read, "text"),)),) if read else ()),
    )


def _sessions(greeting: Greeting, width: int) -> tuple[Line, ...]:
    if not greeting.sessions:
        return ()
    head: Line = (("go on with", "dim"), ("   type its number, or ", "dim"), ("/resume", "code"), (" for all", "dim"))
    room = max(8, min(_TITLE, width - 24))
    return (
        head,
        *(
            ((f"  {at}  ", "accent"), (f"{fit_width(title_of(info), room)}  ", "text"), (_when(greeting, info), "dim"))
            for at, info in enumerate(greeting.sessions, 1)
        ),
    )


def title_of(info: SessionInfo) -> str:
    return sanitised_line(info.title) or NO_TITLE


def _when(greeting: Greeting, info: SessionInfo) -> str:
    return age(greeting.now - info.updated_at)


def greeting_words(greeting: Greeting) -> tuple[str, ...]:
    """The greeting as a few sentences, for line mode."""
    branch = f", branch {sanitised_line(greeting.branch)}" if greeting.branch else ""
    read = [f"{sanitised_line(name)} ({size(count)})" for name, count in greeting.read]
    where = f"{NAME} {VERSION} in {sanitised_line(greeting.folder)}{branch}, model {sanitised_line(greeting.model)}"
    said = f"{where}, mode {greeting.mode}." + (f" Read {', '.join(read)}." if read else "")
    on = [f"{at} {title_of(info)} ({_when(greeting, info)})" for at, info in enumerate(greeting.sessions, 1)]
    sessions = (f"Go on by number: {'; '.join(on)}.",) if on else ()
    tip = f"Tip: {greeting.tip}. " if greeting.tip else ""
    return (said, *greeting.advice, *sessions, f"{tip}`/help` lists what can be typed.")


def tip_of(day: int, sessions: int) -> str:
    """The tip of the day; it changes with the number of sessions."""
    return TIPS[(day + sessions) % len(TIPS)]


def session_by_number(text: str, sessions: Sequence[SessionInfo]) -> SessionInfo | None:
    """The session whose number was typed, if the text is only a number."""
    number = text.strip()
    return sessions[int(number) - 1] if number in map(str, range(1, len(sessions) + 1)) else None
