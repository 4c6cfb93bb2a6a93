"""A parsed command line: commands, words and redirections. `grammar` creates it."""

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """Without quotes and escapes. Expansions are left as written."""
    expands: bool = False
    """Whether the shell expands it: a variable, command substitution or braces."""
    globs: bool = False
    """Whether the shell may replace it with file names."""
    is_bare: bool = True
    """Whether nothing in it is quoted, so that it can be a reserved word."""
    has_status: bool = False
    """Whether it contains `$?`, the previous exit code, which is a number."""

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
    """Position in the line."""

    @property
    def is_harmless(self) -> bool:
        """Whether it only discards output, merges outputs, or reads a file in the working folder."""
        if not self.target.is_plain:
            return False
        if self.sign == ">&":
            return self.target.text in ("1", "2")
        if self.sign == "<":
            return self.target.text[:1] not in ("", "/", "~", "-") and ".." not in self.target.text.split("/")
        return self.sign in (">", ">>", "&>", "&>>") and self.target.text == "/dev/null"


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One call of a program. Its words include assignments before it."""

    words: tuple[Word, ...]
    texts: tuple[str, ...]
    """The texts of `words`."""
    redirections: tuple[Redirection, ...] = ()
    joint: str = ""
    """The operator between this command and the previous one, such as `|` or `&&`; empty for the first."""
    is_inner: bool = False
    """Whether it is inside a substitution."""
    start: int = 0
    end: int = 0
    """Position in the line, without redirections."""

    @property
    def is_fed(self) -> bool:
        """Whether its input comes from a pipe, here-document or here-string."""
        return self.joint in ("|", "|&") or any(one.sign in ("<<", "<<-", "<<<") for one in self.redirections)


@dataclass(frozen=True, slots=True)
class CommandLine:
    commands: tuple[SimpleCommand, ...]
    """All commands in order, including those in substitutions."""
    problem: str = ""
    """Why the line is more than literal commands and operators, or an empty string."""
    is_broken: bool = False
    """Whether the line is incomplete, invalid or too complex."""
    redirections: tuple[Redirection, ...] = ()
    """Redirections of groups, such as loops and subshells."""
    is_in_background: bool = False
    """Whether part of it runs in the background."""
    has_loop: bool = False
    """Whether it has a loop over words."""
