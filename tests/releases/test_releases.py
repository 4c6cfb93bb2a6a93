"""What released versions have left opens, and a version that is about to be released is ready for that."""

import json
import tarfile
import tomllib
from pathlib import Path

import pytest

from ebbtide.version import VERSION
from tests.kit.commands import ROOT, ebb
from tests.releases.keep import FOLDER

ARCHIVES = sorted(FOLDER.glob("*.tar.gz"))
SCRIPT = {
    "reply": [{"calls": [{"name": "recall", "arguments": {"query": "raise prices"}}]}, {"text": "Still nothing."}]
}


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_the_store_and_the_configuration_of_a_released_version_open(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="tar")  # with the modes of files
    (script := tmp_path / "s.json").write_text(json.dumps(SCRIPT))

    settings = json.loads(ebb("config", "--json", home=tmp_path).out)
    settings_file = tomllib.loads((tmp_path / "config" / "config.toml").read_text())
    for table in ("agent", "permissions"):
        for key, value in settings_file[table].items():
            # The sandbox is off in all runs here, by a variable.
            source = "environment EBB_SANDBOX" if key == "sandbox" else str(tmp_path / "config" / "config.toml")
            assert settings[f"{table}.{key}"] == {"value": value, "source": source}

    (session,) = ebb("sessions", "list", "--all", "--json", home=tmp_path).lines
    assert session["title"] == "raise the price"
    run = ebb(
        "-r", session["id"], "-p", "and now?", "-m", f"scripted/{script}", "--output-format", "stream-json",
        home=tmp_path,
    )  # fmt: skip
    assert (run.code, run.result["result"]) == (0, "Still nothing.")
    (resumed,) = [event for event in run.lines if event["type"] == "resumed"]
    assert (resumed["messages"], resumed["problems"]) == (10, [])
    (found,) = [event["text"] for event in run.lines if event["type"] == "tool_finished"]
    assert "raise prices" in found
    checked = ebb("doctor", "--deep", home=tmp_path)
    assert checked.code == 0, checked.out


def test_this_version_is_kept_and_told_of() -> None:
    assert FOLDER / f"{VERSION}.tar.gz" in ARCHIVES, "run `python -m tests.releases.keep`"
    assert f"\n## {VERSION}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
