"""Whole processes against servers that do not take a picture: it leaves the view, named, and the session goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import ebb
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn
from tests.test_unseen import LOCAL, ROOTS, picture

SAYS = {
    "anthropic": "messages.2.content.0.image.source.base64: image exceeds 5 MB maximum: 6002220 bytes > 5242880 bytes",
    "openai": "The image data you provided does not represent a valid image. Please check your input and try again.",
    "openai-chat": "You uploaded an unsupported image. Please make sure your image is valid.",
    "ollama": "Failed to load image or audio file",
}
WHEN: dict[str, Callable[[int], bool]] = {"read": lambda place: place == 1, "shown before": lambda place: place >= 2}


def pictures_in(body: Any) -> int:
    """How many pictures a request shows."""
    match body:
        case {"images": list(images)}:
            return len(images)
        case {"type": "image" | "input_image" | "image_url"}:
            return 1
        case dict():
            return sum(map(pictures_in, body.values()))
        case list():
            return sum(map(pictures_in, body))
    return 0


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("provider", sorted(ROOTS))
def test_a_picture_that_is_refused_is_named_and_the_session_goes_on(provider: str, when: str, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (home / "config").mkdir(parents=True)
    (project / ".git").mkdir(parents=True)
    (project / "p.png").write_bytes(picture(400))
    turns = iter([Turn(calls=(Call("read", {"path": "p.png"}),)), Turn(calls=(Call("glob", {"pattern": "*"}),))])
    counts: list[int] = []

    def answer(recorded: Recorded) -> Turn:
        counts.append(pictures_in(recorded.body))
        if counts[-1] and WHEN[when](len(counts) - 1):
            return Turn(status=400, error=("invalid_request_error", SAYS[provider]))
        return next(turns, Turn(text="done"))

    with FakeProvider([answer], LOCAL if provider == "ollama" else None) as server:
        (home / "config" / "config.toml").write_text(
            f'[agent]\nmodel = "{provider}/m"\n'
            f'[providers.{provider}]\nbase_url = "{server.url}{ROOTS[provider]}"\n'
            f"[providers.{provider}.models.m]\nimages = true\n"
        )
        keys = {"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key"}
        flags = ("--output-format", "json", "-C", str(project))
        run = ebb("-p", "look at p.png", *flags, home=home, env=keys)
        again = ebb("-p", "go on", "-c", *flags, home=home, env=keys)
    assert [(one.code, one.result["result"]) for one in (run, again)] == [(0, "done"), (0, "done")]
    assert counts == {"read": [0, 1, 0, 0, 0], "shown before": [0, 1, 1, 0, 0]}[when]
    assert "rejected an image in the request (400)" in run.err
    assert "because the provider rejected an image: " in run.err
    assert "[recall:r1" in json.dumps(server.requests[-1].body) or "r1:tool-1" in json.dumps(server.requests[-1].body)


def test_a_server_that_speaks_of_pictures_where_none_is_shown_is_believed(tmp_path: Path) -> None:
    with FakeProvider([lambda _: Turn(status=400, error=("invalid_request_error", "image: unknown format"))]) as server:
        run = ebb(
            "-p", "hi", "-m", "openai-chat/m", "--config", f"providers.openai-chat.base_url={server.url}/v1",
            "-C", str(tmp_path), home=tmp_path / "home",
        )  # fmt: skip
    assert (run.code, run.out, len(server.requests)) == (3, "", 1)
