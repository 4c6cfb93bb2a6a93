"""Parses Markdown files with YAML front matter between `---` lines."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

MAX_FRONT_MATTER_CHARS = 65_536
"""Maximum length of the front matter, in characters."""
_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n(?P<head>.*?)(?:^(?:---|\.\.\.)[ \t]*$\n?|\Z(?P<open>))", re.DOTALL | re.MULTILINE
)
_UNQUOTED_VALUE = re.compile(r"^(?P<key>[A-Za-z_][\w-]*):[ \t]+(?P<value>[^\s\"'|>&].*)$", re.MULTILINE)
_KEY = re.compile(r"^(?P<key>[A-Za-z_][\w-]*):(?=[ \t]|$)", re.MULTILINE)
_PROSE_KEYS = frozenset({"description", "argument-hint", "when_to_use"})
_KNOWN_KEYS = _PROSE_KEYS | frozenset(
    """
    agent agents allowed-tools alwaysApply applyTo author background category color context created disable
    disable-model-invocation disallowed-tools disallowedTools displayName effort globs hidden hooks initialPrompt
    isolation license maxSteps maxTurns mcpServers memory metadata mode model modified name paths permission
    permissionMode reviewed skills steps tags temperature tools top_p user-invocable version
    """.split()  # noqa: SIM905  # more readable as a table
)
"""Keys that are recognised in front matter that is not valid YAML. Any other word before a colon, as in `user: "Help"`,
is treated as prose."""
_BOOLEAN_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_MAX_DIGITS = 10
_LIST_ITEM = re.compile(r"[^\s,(]+(?:\([^)]*\))?")


class FrontMatterError(Exception):
    """The front matter of a file is invalid. The message gives the reason, with the line number if it is known."""


def split_front_matter(text: str) -> tuple[dict[str, object], str]:
    """Split text into front matter and body. Raises `FrontMatterError`."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text
    if match["open"] is not None:
        raise FrontMatterError("line 1: the front matter is not closed with `---`")
    if len(match["head"]) > MAX_FRONT_MATTER_CHARS:
        raise FrontMatterError(f"the front matter is longer than {MAX_FRONT_MATTER_CHARS:,} characters")
    return dict(_parse_yaml(match["head"])), text[match.end() :].lstrip("\n")


def one_line_value(front_matter: Mapping[str, object], key: str) -> str:
    """Return the value as one line of text; empty if it is missing or not text."""
    value = front_matter.get(key)
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return " ".join(f"[{item}]" for item in value)  # `argument-hint: [file]` is a list in YAML
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def boolean_value(front_matter: Mapping[str, object], key: str) -> bool | None:
    """Return the value as a boolean; None if it is missing or not a boolean."""
    return _BOOLEAN_WORDS.get(str(front_matter.get(key)).lower())


def positive_integer(front_matter: Mapping[str, object], key: str) -> int | None:
    """Return the value if it is a positive integer; None otherwise."""
    value = str(front_matter.get(key))
    return int(value) or None if value.isdecimal() and value.isascii() and len(value) < _MAX_DIGITS else None


def list_value(front_matter: Mapping[str, object], key: str) -> tuple[str, ...] | None:
    """Return the items of a list, or of a string with items separated by commas or spaces, such as `Read, Bash(git
    add:*)`; None if the value is missing."""
    value = front_matter.get(key)
    if isinstance(value, list):
        return tuple(str(item).strip() for item in value if isinstance(item, str | int | float))
    return tuple(_LIST_ITEM.findall(value)) if isinstance(value, str) else None


@lru_cache(maxsize=256)
def _parse_yaml(head: str) -> dict[str, object]:
    import yaml  # noqa: PLC0415  # deferred: only needed if there are extensions

    class Loader(yaml.SafeLoader):
        """YAML loader that rejects aliases, since a few lines of them can expand to gigabytes. Values stay text as
        written, so that a version `1.10`, a name `007` or an answer `yes` is unchanged."""

        yaml_implicit_resolvers = {  # noqa: RUF012  # required by the library
            first_character: [resolver for resolver in resolvers if resolver[0] == "tag:yaml.org,2002:null"]
            for first_character, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # missing in its stubs
                raise yaml.composer.ComposerError(None, None, "an alias", mark)
            return super().compose_node(parent, index)

    def load(yaml_text: str) -> object:
        return yaml.load(yaml_text, Loader)

    try:
        try:
            content = load(head)
        except yaml.YAMLError as error:
            try:  # `description: Use this: now` is not valid YAML, but other programs accept it
                content = load(_UNQUOTED_VALUE.sub(_quote_value, head))
            except yaml.YAMLError:
                content = _parse_with_prose(head, load)
                if content is None:
                    raise error from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 2}: " if error.problem_mark else ""
        raise FrontMatterError(f"{line}{error.problem or error.context or 'it is not valid YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FrontMatterError(" ".join(str(error).split())[:200] or "it is not valid YAML") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise FrontMatterError("line 2: the front matter is not a list of `key: value`")
    return {str(key): value for key, value in content.items()}


def _parse_with_prose(head: str, load: Callable[[str], object]) -> dict[str, object] | None:
    """Parse front matter whose descriptions contain unquoted multi-line prose, such as an example conversation. Return
    None if anything else in it is invalid."""
    import yaml  # noqa: PLC0415  # deferred: as above

    key_matches = [match for match in _KEY.finditer(head) if match["key"] in _KNOWN_KEYS]
    if (
        not key_matches
        or head[: key_matches[0].start()].strip()
        or _PROSE_KEYS.isdisjoint(match["key"] for match in key_matches)
    ):
        return None
    content: dict[str, object] = {}
    ends = [*(match.start() for match in key_matches[1:]), len(head)]
    for match, end in zip(key_matches, ends, strict=True):
        key, entry_text = match["key"], head[match.start() : end]
        try:
            parsed = load(entry_text)
        except yaml.YAMLError:
            parsed = None
        is_valid_entry = isinstance(parsed, dict) and set(parsed) == {key}
        if key in content or not (is_valid_entry or key in _PROSE_KEYS):
            return None
        content[key] = (
            parsed[key] if isinstance(parsed, dict) and is_valid_entry else entry_text[len(key) + 1 :].strip()
        )
    return content


def _quote_value(match: re.Match[str]) -> str:
    value = match["value"].rstrip().replace("\\", "\\\\").replace('"', '\\"')
    return f'{match["key"]}: "{value}"'
