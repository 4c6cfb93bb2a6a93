"""Keys that the user has handed over: where they are kept, and to whom they go."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.errors import AuthFailed, ConfigError
from ebbtide.agent.providers.keys import KeyStore, StoredKey, add_stored_keys, read_stored_key, url_origin
from ebbtide.agent.providers.setup import find_default_model, find_endpoint
from tests.kit.commands import ROOT, environment

KEY = "sk-handed-over-1234"
OPENAI = "https://api.openai.com"


def test_a_key_is_kept_for_its_owner_alone_and_goes_when_it_is_removed(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "config")
    assert (store.stored_keys(), store.remove_key("openai")) == ({}, False)
    assert store.store_key("openai", OPENAI, KEY) == "file"
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert (store.stored_keys(), store.read_key("openai")) == ({"openai": StoredKey(OPENAI, "file")}, KEY)
    assert (store.remove_key("openai"), KEY in store.path.read_text(), store.read_key("openai")) == (True, False, None)


def test_a_key_goes_to_the_address_that_it_is_for_and_to_no_other(tmp_path: Path) -> None:
    KeyStore(tmp_path).store_key("openai", OPENAI, KEY)
    known = add_stored_keys(tmp_path, {"HOME": "/"})
    assert find_endpoint("openai", ProviderConfig(), known).key == KEY
    assert find_default_model({}, known).startswith("openai/")
    for elsewhere in ("https://evil.example/v1", "http://api.openai.com/v1", "https://api.openai.com:444/v1"):
        with pytest.raises(AuthFailed):
            find_endpoint("openai", ProviderConfig(base_url=elsewhere), known)
    with pytest.raises(AuthFailed):
        find_endpoint("openai-chat", ProviderConfig(), known)
    assert find_endpoint("openai", ProviderConfig(), {**known, "OPENAI_API_KEY": "own"}).key == "own"


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"keys": 3}', '{"keys": {"openai": {"origin": 1, "place": "file", "key": "k"}}}', "[" * 100_000],
)
def test_a_file_that_is_damaged_gives_no_key_and_says_so(tmp_path: Path, content: str) -> None:
    store = KeyStore(tmp_path)
    store.path.write_text(content)
    with pytest.raises(ConfigError, match=r"keys\.json"):
        store.stored_keys()
    assert read_stored_key(add_stored_keys(tmp_path, {}), "openai") is None


def test_a_file_that_everybody_may_write_gives_no_key(tmp_path: Path) -> None:
    store = KeyStore(tmp_path)
    store.store_key("openai", OPENAI, KEY)
    store.path.chmod(0o666)
    assert read_stored_key(add_stored_keys(tmp_path, {}), "openai") is None


def test_addresses_are_told_apart_by_scheme_host_and_port() -> None:
    urls = ("https://me:pw@API.example/v1", "https://api.example:443", "http://h:80/x", "http://[::1]:8080/v1")
    assert [url_origin(url) for url in urls] == [
        "https://api.example", "https://api.example", "http://h", "http://::1:8080",
    ]  # fmt: skip


BACKEND = """
import json, os, time
FILE = os.environ["KEYRING_FILE"]
class Backend:
    priority = {priority}
    def get_keyring(self): return self
    def set_password(self, service, name, word): {slow}; json.dump([service, name, word], open(FILE, "w"))
    def get_password(self, service, name): {slow}; return json.load(open(FILE))[2] if os.path.exists(FILE) else None
    def delete_password(self, service, name): os.remove(FILE)
get_keyring = Backend().get_keyring
"""
USES = """
import sys
from pathlib import Path
from ebbtide.agent.providers import keys
keys._KEYRING_TIMEOUT_S = 0.2
store = keys.KeyStore(Path(sys.argv[1]))
place = store.store_key("openai", "https://api.openai.com", "sk-1234")
print(place, store.read_key("openai"), store.remove_key("openai"))
"""


@pytest.mark.parametrize(
    ("priority", "slow", "place"),
    [("5", "pass", "keyring"), ("0.5", "pass", "file"), ("5", "time.sleep(60)", "file"), ("5", "1 / 0", "file")],
)
def test_a_keyring_is_used_where_it_is_a_real_one_that_answers(
    tmp_path: Path, priority: str, slow: str, place: str
) -> None:
    (tmp_path / "keyring.py").write_text(BACKEND.format(priority=priority, slow=slow))
    env = environment(tmp_path, {"KEYRING_FILE": str(tmp_path / "kept"), "PYTHONPATH": f"{tmp_path}:{ROOT}"})
    ran = subprocess.run(
        [sys.executable, "-c", USES, str(tmp_path / "config")],
        env=env,
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (ran.stdout.split(), ran.stderr) == ([place, "sk-1234", "True"], "")
    assert not (tmp_path / "kept").exists()
    assert json.loads((tmp_path / "config" / "keys.json").read_text()) == {"keys": {}}
