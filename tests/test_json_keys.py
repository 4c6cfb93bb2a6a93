"""The keys of JSON output, which scripts rely on. Some of them are fields of values, which are easily renamed."""

from dataclasses import fields
from pathlib import Path

import pytest

from ebbtide.agent.records.usage import Rewrite
from tests.kit.session import bash, call, calls
from tests.kit.user import User


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody with one session, in which a file was read and a command run."""
    user = User(tmp_path)
    (user.project / "a.txt").write_text("hello\n")
    user.ask({"text": "I look.", **calls(call("read", path="a.txt"), bash("seq 3"))}, {"text": "Done."}, flags=AUTO)
    return user


AUTO = ("--permission-mode", "auto")


def keys(value: object, path: str = "") -> set[str]:
    """The keys of nested objects, as paths."""
    match value:
        case dict():
            found = {f"{path}{key}" for key in value}
            return found.union(*(keys(item, f"{path}{key}.") for key, item in value.items()))
        case list():
            return set().union(*(keys(item, path) for item in value))
        case _:
            return set()


def test_the_keys_of_a_search(user: User) -> None:
    assert keys(user.ebb("sessions", "search", "hello", "--json").lines) == {
        "at", "by_meaning", "excerpt", "kind", "path", "ref", "searched", "size", "title", "tool", "where",
    }  # fmt: skip


def test_the_keys_of_what_fills_a_context(user: User) -> None:
    found = keys(user.ebb("context", "--json").lines)
    assert {each.removeprefix("epochs.") for each in found if each.startswith("epochs.")} == {
        "rewrite", "requests", "requests.at", "requests.cost", "requests.model", "requests.purpose", "requests.usage",
        "requests.usage.cache_read", "requests.usage.cache_write", "requests.usage.input", "requests.usage.output",
        "requests.usage.reasoning",
    }  # fmt: skip
    assert {each for each in found if "." not in each} == {
        "cache_lifetime", "components", "deferred", "effective", "epochs", "instructions", "items", "model", "pins",
        "prices_again", "recalls", "reserves", "servers", "session", "style_costs", "title", "tools", "used", "window",
    }  # fmt: skip
    assert {each.removeprefix("style_costs.") for each in found if each.startswith("style_costs.")} == {
        "active", "message_count", "recorded", "replayed_count", "styles", "styles.dollars", "styles.regrets",
        "styles.style", "styles.tokens",
    }  # fmt: skip


def test_the_keys_of_a_rewrite() -> None:
    assert {"before", "after", "at"} <= {field.name for field in fields(Rewrite)}
