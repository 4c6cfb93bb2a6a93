"""A parsed command line: commands, words and redirections. Created by `grammar`."""

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """The word without quotes or escapes. Expansions are unchanged."""
    has_expansion: bool = False
    """Whether the shell expands it: a variable, command substitution or braces."""
    is_glob: bool = False
    """Whether the shell may replace it with file names."""
    is_unquoted: bool = True
    """Whether no part of the word is quoted. Only such a word can be a reserved word."""
    has_exit_status: bool = False
    """Whether it contains `$?`, the exit code of the previous command. This is not an expansion here, because the value
    is always a number."""

    @property
    def is_plain(self) -> bool:
        """Whether the program gets exactly this text."""
        return not (self.has_expansion or self.is_glob or self.has_exit_status)


@dataclass(frozen=True, slots=True)
class Redirection:
    operator: str
    target: Word
    descriptor: str = ""
    start: int = 0
    end: int = 0
    """Offset at which the redirection ends in the line."""

    @property
    def is_harmless(self) -> bool:
        """Whether the redirection only discards or merges output, or only reads a file in the working folder."""
        if not self.target.is_plain:
            return False
        if self.operator == ">&":
            return self.target.text in ("1", "2")
        if self.operator == "<":
            return self.target.text[:1] not in ("", "/", "~", "-") and ".." not in self.target.text.split("/")
        return self.operator in (">", ">>", "&>", "&>>") and self.target.text == "/dev/null"


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One call to a program. Its words include the assignments before the program."""

    words: tuple[Word, ...]
    texts: tuple[str, ...]
    """The texts of `words`."""
    redirections: tuple[Redirection, ...] = ()
    preceding_operator: str = ""
    """The operator before this command, such as `|` or `&&`; empty for the first command."""
    is_in_substitution: bool = False
    """Whether it is inside a substitution."""
    start: int = 0
    end: int = 0
    """Offset in the line at which the command ends, without its redirections."""

    @property
    def has_input(self) -> bool:
        """Whether its input comes from a pipe, here-document or here-string."""
        return self.preceding_operator in ("|", "|&") or any(
            redirection.operator in ("<<", "<<-", "<<<") for redirection in self.redirections
        )


@dataclass(frozen=True, slots=True)
class CommandLine:
    commands: tuple[SimpleCommand, ...]
    """All commands in order, including those in substitutions."""
    problem: str = ""
    """Why the line does not consist only of literal commands and operators, as a clause; empty if it does."""
    is_unparsable: bool = False
    """Whether the line is incomplete, invalid or too complex."""
    redirections: tuple[Redirection, ...] = ()
    """Redirections of groups, such as loops and subshells."""
    is_in_background: bool = False
    """Whether part of the line runs in the background."""
    has_loop: bool = False
    """Whether it contains a loop over words."""


@dataclass(frozen=True, slots=True)
class Danger:
    start: int
    end: int
    """Offset at which the part ends in the line."""
    why: str
    """What the part does, as a verb phrase such as `discards uncommitted changes`."""
