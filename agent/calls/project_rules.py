"""The user's rules for a project, in a file of the user that only they can read. It lies outside the project, so the
project cannot change it."""

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
    """Why some or all rules could not be read, in words for the user."""


class ProjectRules:
    """The rules of one project."""

    def __init__(self, folder: Path, project: Path) -> None:
        """`folder`: the folder of the user's settings; `project`: its real path. In a linked work tree, the rules of
        the main work tree apply as well."""
        self._file, main = ProjectTable(folder / NAME, project), in_main_work_tree(project)
        self._files = (self._file,) if main is None else (ProjectTable(folder / NAME, main), self._file)

    @property
    def place(self) -> str:
        return str(self._file.path)

    def read(self) -> SavedRules:
        """The rules of the project. Unreadable ones allow nothing, and are reported."""
        try:
            entries = [file.read() for file in self._files]
        except ConfigError as error:
            return SavedRules(problem=f"your project rules are ignored: {error}")
        said = [entry.get("allow", []) for entry in entries]
        listed = [rule for rules in said for rule in (rules if isinstance(rules, list) else [rules])]
        good = tuple(rule for rule in listed if isinstance(rule, str) and _is_rule(rule))
        if len(good) == len(listed):
            return SavedRules(tuple(dict.fromkeys(good)))
        bad = ", ".join(f"`{json.dumps(rule)}`" for rule in listed if rule not in good)
        return SavedRules(
            good, f"`{self.place}`: {bad} is not a valid rule and is ignored; a rule looks like `bash(git status)`"
        )

    def add_rule(self, rule: str) -> None:
        """Add a rule. Raises `ConfigError`, also if the file cannot be read, so that nothing is lost."""

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
