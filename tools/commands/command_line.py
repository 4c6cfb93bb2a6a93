"""A command line as values: its commands, their words and where they redirect. `grammar` reads them out of a text."""

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """Without quotes and escapes; expansions stand in it as they were written."""
    expands: bool = False
    """Whether the shell puts something else in its place: a variable, a command's output, alternatives in braces."""
    globs: bool = False
    """Whether the shell may put names of files in its place."""
    is_bare: bool = True
    """Whether nothing in it was quoted, so that it can be a reserved word."""
    has_status: bool = False
    """Whether each `$?` in it stands for the exit code of the command before, which is a number."""

    @property
    def is_plain(self) -> bool:
        """Whether the program gets exactly this text."""
        return not (self.expands or self.globs or self.has_status)


@dataclass(frozen=True, slots=True)
class Redirection:
    sign: str
    target: Word
    descriptor: str = ""
    start: int = 0
    end: int = 0
    """Where in the text it stands."""

    @property
    def is_harmless(self) -> bool:
        """Whether it only discards output, joins two outputs, or reads a file of the working folder."""
        if not self.target.is_plain:
            return False
        if self.sign == ">&":
            return self.target.text in ("1", "2")
        if self.sign == "<":
            return self.target.text[:1] not in ("", "/", "~", "-") and ".." not in self.target.text.split("/")
        return self.sign in (">", ">>", "&>", "&>>") and self.target.text == "/dev/null"


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One call of a program, with the assignments before it among its words."""

    words: tuple[Word, ...]
    texts: tuple[str, ...]
    """Those of the words, which everybody asks for."""
    redirections: tuple[Redirection, ...] = ()
    joint: str = ""
    """What stands between it and the command before it: `|`, `&&`; empty for a first one."""
    is_inner: bool = False
    """Whether it stands in a substitution."""
    start: int = 0
    end: int = 0
    """Where in the text it stands, its redirections left out."""

    @property
    def is_fed(self) -> bool:
        """Whether its input comes from a pipe or from the line itself."""
        return self.joint in ("|", "|&") or any(one.sign in ("<<", "<<-", "<<<") for one in self.redirections)


@dataclass(frozen=True, slots=True)
class CommandLine:
    commands: tuple[SimpleCommand, ...]
    """All that it runs, in the order in which they stand, those in substitutions among them."""
    problem: str = ""
    """Why it is more than literal commands, joined; empty when it is not."""
    is_broken: bool = False
    """Whether it is no complete command line, or too much of one."""
    redirections: tuple[Redirection, ...] = ()
    """Those of groups of commands: of a loop, of a sub-shell."""
    is_in_background: bool = False
    """Whether something in it goes on beside the rest."""
    has_loop: bool = False
    """Whether commands in it are run for each of some words."""
