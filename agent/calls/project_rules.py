"""The rules that the user keeps for a project: a file of the user's own that only its owner can read. A project cannot
say anything in it, since it lies nowhere in the project."""

import json
from pathlib import Path

from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.config.private_table import ProjectTable
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.git_metadata import in_main_work_tree

NAME = "rules.json"


@dataclass(frozen=True, slots=True)
class SavedRules:
    allow: tuple[str, ...] = ()
    problem: str = ""
    """Why some or all could not be read, as the user is told."""


class ProjectRules:
    """Those of one project."""

    def __init__(self, folder: Path, project: Path) -> None:
        """`folder`: where the user's own settings are; `project`: its real path. In a linked work tree of a repository
        those of the repository hold, too."""
        self._file, main = ProjectTable(folder / NAME, project), in_main_work_tree(project)
        self._files = (self._file,) if main is None else (ProjectTable(folder / NAME, main), self._file)

    @property
    def place(self) -> str:
        return str(self._file.path)

    def read(self) -> SavedRules:
        """The rules that hold in the project. What cannot be read allows nothing, and is told."""
        try:
            entries = [file.read() for file in self._files]
        except ConfigError as error:
            return SavedRules(problem=f"the rules that you keep for projects are not used: {error}")
        said = [entry.get("allow", []) for entry in entries]
        listed = [rule for rules in said for rule in (rules if isinstance(rules, list) else [rules])]
        good = tuple(rule for rule in listed if isinstance(rule, str) and _is_rule(rule))
        if len(good) == len(listed):
            return SavedRules(tuple(dict.fromkeys(good)))
        bad = ", ".join(f"`{json.dumps(rule)}`" for rule in listed if rule not in good)
        return SavedRules(good, f"`{self.place}`: {bad} is not a rule such as `bash(git status)`, so it is not used")

    def add_rule(self, rule: str) -> None:
        """Adds a rule. Raises `ConfigError`, also when what the file holds cannot be read: then nothing is lost."""

        def with_rule(entry: dict[str, object]) -> dict[str, object]:
            rules = entry.get("allow", [])
            listed = rules if isinstance(rules, list) else [rules]
            return {**entry, "allow": [*listed, *([] if rule in listed else [rule])]}

        self._file.change(with_rule)


def _is_rule(text: str) -> bool:
    try:
        parse_rule(text)
    except ConfigError:
        return False
    return True
