"""The user's rules for a project, in a file that only the user can read. It is outside the project, so that the project
cannot change it."""

import json
from pathlib import Path

from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.config.private_table import ProjectTable
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.git_metadata import main_work_tree_folder

RULES_FILE_NAME = "rules.json"


@dataclass(frozen=True, slots=True)
class SavedRules:
    allow: tuple[str, ...] = ()
    problem: str = ""
    """Why some or all rules could not be read, in words for the user."""


class ProjectRules:
    """The rules of one project."""

    def __init__(self, config_folder: Path, project: Path) -> None:
        """`config_folder`: the folder of the user's settings; `project`: the project's real path. In a linked work
        tree, the rules of the main work tree apply as well."""
        self._file = ProjectTable(config_folder / RULES_FILE_NAME, project)
        main_work_tree = main_work_tree_folder(project)
        self._files = (
            (self._file,)
            if main_work_tree is None
            else (ProjectTable(config_folder / RULES_FILE_NAME, main_work_tree), self._file)
        )

    @property
    def path(self) -> str:
        return str(self._file.path)

    def read(self) -> SavedRules:
        """Return the rules of the project. Invalid rules are skipped and reported."""
        try:
            entries = [file.read() for file in self._files]
        except ConfigError as error:
            return SavedRules(problem=f"your project rules are ignored: {error}")
        rule_lists = [entry.get("allow", []) for entry in entries]
        all_rules = [rule for rules in rule_lists for rule in (rules if isinstance(rules, list) else [rules])]
        valid_rules = tuple(rule for rule in all_rules if isinstance(rule, str) and _is_valid_rule(rule))
        if len(valid_rules) == len(all_rules):
            return SavedRules(tuple(dict.fromkeys(valid_rules)))
        invalid_rules = ", ".join(f"`{json.dumps(rule)}`" for rule in all_rules if rule not in valid_rules)
        return SavedRules(
            valid_rules,
            f"`{self.path}`: {invalid_rules} is not a valid rule and is ignored; a rule looks like `bash(git status)`",
        )

    def add_rule(self, rule: str) -> None:
        """Add a rule. Raises `ConfigError` on failure. A file that cannot be read is not overwritten."""

        def with_rule(entry: dict[str, object]) -> dict[str, object]:
            rules = entry.get("allow", [])
            rule_list = rules if isinstance(rules, list) else [rules]
            return {**entry, "allow": [*rule_list, *([] if rule in rule_list else [rule])]}

        self._file.update(with_rule)


def _is_valid_rule(text: str) -> bool:
    try:
        parse_rule(text)
    except ConfigError:
        return False
    return True
