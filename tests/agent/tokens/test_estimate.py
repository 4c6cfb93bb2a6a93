"""What texts and images are counted as, and what an estimator learns from what providers report."""

import base64
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Assistant, Image, Text, ToolCall, ToolOutput, User
from ebbtide.agent.tokens.estimate import (
    BYTE_COUNTER,
    Estimator,
    TextCounts,
    TokenCounter,
    count_message,
    count_text,
    estimate_by_chars,
    is_plausible_count,
    update_estimator,
)
from ebbtide.agent.tokens.images import ImageRule, image_size, image_tokens
from tests.kit.conversations import texts

amounts = st.integers(0, 100_000)
counts = st.builds(
    TextCounts, amounts, amounts, amounts, st.floats(0, 1e5), st.integers(0, 50), st.integers(0, 1), amounts
)


@given(texts, texts)
def test_counts_add_up(first: str, second: str) -> None:
    assert count_text(first) + count_text(second) == count_text(first + second)


def test_each_class_of_byte_is_counted_by_itself() -> None:
    assert count_text("ab 12;\n日é") == TextCounts(letters=3, symbols=4, others=2)
    assert count_text("ab 12;\n日é", TokenCounter(lambda text: len(text) / 2)) == TextCounts(tokens=4.5)


def test_a_message_is_counted_with_all_its_parts() -> None:
    user = User((Text("hi"), ToolOutput("1", "ok", images=(Image("image/png", ""),)), ToolOutput("2", "no")))
    assert count_message(user, BYTE_COUNTER) == TextCounts(letters=6, items=2, exact_tokens=1600)
    reply = Assistant((ToolCall("1", "read", {}, '{"a": 1}'),))
    assert count_message(reply, BYTE_COUNTER) == count_text('read{"a": 1}') + TextCounts(items=1)


def test_the_plain_rules_stay_available() -> None:
    assert [estimate_by_chars(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
    assert estimate_by_chars("abcdefghij", 2.5) == 4


def taught(weights: tuple[float, ...], noise: float, samples: int) -> Estimator:
    """An estimator after so many usages of a model with these weights."""
    dice = random.Random(3)
    estimator = Estimator()
    for _ in range(samples):
        unseen = TextCounts(dice.randrange(20, 3000), dice.randrange(5, 1500), dice.choice((0, 0, 40)), 0.0, 1, 1)
        true = sum(a * b for a, b in zip(weights, unseen.vector, strict=True)) * dice.gauss(1, noise)
        estimator = update_estimator(estimator, unseen, round(true), 50_000)
    return estimator


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.6])
def test_the_weights_of_a_model_are_learned(factor: float) -> None:
    true = (0.33 * factor, 0.6 * factor, 1.5 * factor, 1.0, 10.0, 5.0)
    estimator = taught(true, 0.02, 60)
    assert estimator.weights[:2] == pytest.approx(true[:2], rel=0.05)
    assert estimator.sample_count == 60
    assert estimator.is_precise


def test_weights_move_on_when_a_model_changes() -> None:
    before = taught((0.33, 0.6, 1.5, 1.0, 10.0, 5.0), 0.02, 60)
    unseen = TextCounts(2000, 500, 0, 0.0, 1, 1)
    for _ in range(60):
        before = update_estimator(before, unseen, 1600, 50_000)
    assert before.estimate(unseen) == pytest.approx(1600, rel=0.02)


def test_an_estimator_is_precise_after_twenty_good_samples() -> None:
    nineteen, twenty = Estimator(errors=(0.001,) * 19), Estimator(errors=(0.001,) * 19 + (0.5,))
    assert (nineteen.error, nineteen.is_precise) == (None, False)
    assert (twenty.error, twenty.is_precise) == (0.001, True)
    assert not Estimator(errors=(0.001,) * 18 + (0.5, 0.5)).is_precise


@given(counts, st.integers(-1000, 0))
def test_a_report_of_nothing_teaches_nothing(unseen: TextCounts, reported: int) -> None:
    assert update_estimator(Estimator(), unseen, reported, 1000) == Estimator()


@given(counts)
def test_a_report_ten_times_off_teaches_nothing(unseen: TextCounts) -> None:
    expected = Estimator().estimate(unseen)
    assert update_estimator(Estimator(), unseen, 10 * expected + 201, 1000) == Estimator()
    assert not is_plausible_count(10 * expected + 201, expected)
    assert not is_plausible_count(expected // 10 - 201, expected)


@pytest.mark.parametrize("whole", [True, False])
def test_a_server_that_takes_far_more_for_pictures_teaches_nothing_of_text(whole: bool) -> None:
    counts = TextCounts(letters=9000, symbols=3000, items=12, exact_tokens=140)
    true = Estimator().estimate(counts)
    assert update_estimator(Estimator(), counts, true + 34_000, true + 40_000, is_full_request=whole) == Estimator()
    assert update_estimator(Estimator(), counts, true + 100, true + 6000, is_full_request=whole).sample_count == 1


@given(st.lists(st.tuples(counts, st.floats(0, 20), st.booleans()), max_size=30))
def test_whatever_is_reported_estimates_stay_within_bounds(reports: list[tuple[TextCounts, float, bool]]) -> None:
    estimator = Estimator()
    for unseen, factor, whole in reports:
        reported = int(estimator.estimate(unseen) * factor)
        estimator = update_estimator(estimator, unseen, reported, reported + 1000, is_full_request=whole)
    text = TextCounts(letters=10_000, symbols=10_000, others=10_000)
    assert 5000 <= estimator.estimate(text) <= 80_000
    assert len(estimator.errors) <= 100
    assert all(row[i] >= -1e-6 for i, row in enumerate(estimator.covariance))


@given(counts, counts)
def test_more_text_is_never_estimated_as_less(first: TextCounts, second: TextCounts) -> None:
    estimator = Estimator()
    assert estimator.estimate(first) <= estimator.estimate(first + second)
    assert estimator.estimate(first + second) <= estimator.estimate(first) + estimator.estimate(second) + 1


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def png(width: int, height: int) -> str:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return encoded(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)))


def jpeg(width: int, height: int, before: int = 0) -> str:
    padding = b"".join(b"\xff\xe1" + struct.pack(">H", 60_002) + bytes(60_000) for _ in range(before))
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return encoded(b"\xff\xd8" + padding + b"\xff\xdb" + struct.pack(">H", 4) + bytes(2) + frame)


def gif(width: int, height: int) -> str:
    return encoded(b"GIF89a" + struct.pack("<HH", width, height) + bytes(3))


def webp(kind: bytes, width: int, height: int) -> str:
    size = {
        b"VP8 ": bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height),
        b"VP8L": b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14),
        b"VP8X": bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
    }[kind]
    return encoded(b"RIFF" + bytes(4) + b"WEBP" + kind + struct.pack("<I", len(size)) + size)


@pytest.mark.parametrize(
    "data",
    [png(640, 480), gif(640, 480), jpeg(640, 480), jpeg(640, 480, before=3)]
    + [webp(kind, 640, 480) for kind in (b"VP8 ", b"VP8L", b"VP8X")],
)
def test_the_size_of_an_image_is_read_from_its_head(data: str) -> None:
    assert image_size(data) == (640, 480)


@given(
    st.binary(max_size=80) | st.sampled_from([png(9, 9), jpeg(9, 9), gif(9, 9)]).map(base64.b64decode),
    st.integers(0, 80),
)
def test_any_bytes_are_counted_as_some_image(raw: bytes, end: int) -> None:
    image = Image("image/png", encoded(raw[:end]))
    assert 1 <= image_tokens(image) <= 1600
    assert 255 <= image_tokens(image, "tiles") <= 85 + 170 * 64


@pytest.mark.parametrize(
    ("size", "rule", "tokens"),
    [
        ((750, 100), "area", 100), ((1000, 1000), "area", 1334), ((4000, 4000), "area", 1600), ((1, 1), "area", 1),
        ((512, 512), "tiles", 255), ((1024, 1024), "tiles", 765), ((2048, 4096), "tiles", 1105),
    ],
)  # fmt: skip
def test_an_image_takes_what_its_provider_says(size: tuple[int, int], rule: ImageRule, tokens: int) -> None:
    assert image_tokens(Image("image/png", png(*size)), rule) == tokens


def test_an_image_that_cannot_be_read_is_counted_as_a_large_one() -> None:
    image = Image("image/png", "not base64!")
    assert (image_tokens(image), image_tokens(image, "tiles")) == (1600, 765)
