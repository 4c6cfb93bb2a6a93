"""The key of tokens: random, the same for all who ask on one machine, and for its user alone."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.records.token_key import KEY_BYTES, KEY_FILE, load_or_create_token_key


def test_all_who_ask_at_once_are_given_the_same(tmp_path: Path) -> None:
    path = tmp_path / "data" / KEY_FILE
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(lambda _: load_or_create_token_key(path), range(64)))
    assert found == {path.read_bytes()}
    assert (len(path.read_bytes()), path.stat().st_mode & 0o777, os.listdir(path.parent)) == (
        KEY_BYTES,
        0o600,
        [KEY_FILE],
    )
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["empty", "short", "long", "pipe", "link"])
def test_what_is_no_key_gives_way_to_one(tmp_path: Path, what: str) -> None:
    path, link_target = tmp_path / KEY_FILE, tmp_path / "aside"
    link_target.write_bytes(b"mine")
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to(link_target)
    else:
        path.write_bytes(b"x" * {"empty": 0, "short": KEY_BYTES - 1, "long": KEY_BYTES + 1}[what])
    assert load_or_create_token_key(path) == load_or_create_token_key(path) == path.read_bytes()
    assert (link_target.read_bytes(), path.is_symlink()) == (b"mine", False)


def test_where_none_can_be_kept_each_run_has_its_own(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE / "folder").mkdir(parents=True)
    first, second = load_or_create_token_key(tmp_path / KEY_FILE), load_or_create_token_key(tmp_path / KEY_FILE)
    assert (len(first), len(second), first == second) == (KEY_BYTES, KEY_BYTES, False)
    assert sorted(os.listdir(tmp_path)) == [KEY_FILE]


def test_a_token_cannot_be_made_without_the_key(tmp_path: Path) -> None:
    environment = {"DB_PASSWORD": "summer2024"}
    tokens = {SecretTokens(environment, partial(bytes, [key] * KEY_BYTES)).hide("summer2024") for key in range(20)}
    assert len(tokens) == 20
