"""Times of recorded rows that are out of order."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bench.context.clock import correct_times

SECONDS = st.integers(-10_000, 10_000).map(float)
TIMES = st.lists(st.none() | SECONDS, max_size=60)
HALF_DAY = 43_200.0


@given(TIMES)
def test_corrected_times_never_decrease_and_keep_their_number(times: list[float | None]) -> None:
    corrected, _ = correct_times(times)
    assert len(corrected) == len(times)
    assert all(one <= next for one, next in pairwise(corrected))


@given(st.lists(SECONDS, max_size=60).map(sorted))
def test_times_in_order_stay_as_they_are(times: list[float]) -> None:
    assert correct_times(times) == (times, 0)


@given(st.lists(SECONDS, min_size=3, max_size=60).map(sorted), st.data())
def test_one_time_far_ahead_or_far_back_changes_no_other_row(times: list[float], data: st.DataObject) -> None:
    """The first and the last row are not drawn: a pause after or before them looks the same."""
    place = data.draw(st.integers(1, len(times) - 2))
    offset = data.draw(st.sampled_from((-2 * HALF_DAY, 2 * HALF_DAY)))
    wrong = [*times[:place], times[place] + offset, *times[place + 1 :]]
    corrected, out_of_order = correct_times(wrong)
    assert out_of_order == 1
    assert [*corrected[:place], *corrected[place + 1 :]] == [*times[:place], *times[place + 1 :]]
    assert corrected[place] == (times[place + 1] if offset > 0 else times[place - 1])


@given(TIMES, st.integers(-(10**6), 10**6).map(float))
def test_a_shift_of_all_times_shifts_the_corrected_ones(times: list[float | None], shift: float) -> None:
    corrected, out_of_order = correct_times(times)
    shifted = correct_times([None if at is None else at + shift for at in times])
    has_times = any(at is not None for at in times)
    assert shifted == ([at + shift if has_times else at for at in corrected], out_of_order)


@given(TIMES)
def test_what_is_corrected_needs_no_second_correction(times: list[float | None]) -> None:
    corrected, _ = correct_times(times)
    assert correct_times(corrected) == (corrected, 0)


def test_an_output_half_a_day_ahead_leaves_the_later_pauses() -> None:
    times = [0, 5, HALF_DAY, 10, 900, 1_800, 1_805]
    assert correct_times(times) == ([0, 5, 10, 10, 900, 1_800, 1_805], 1)


def test_a_clock_that_is_set_back_still_measures_pauses() -> None:
    assert correct_times([1_000, 1_400, 2_000, 2_010, 400, 1_000]) == ([1_000, 1_400, 2_000, 2_010, 2_010, 2_610], 2)
    assert correct_times([1_000, 1_400, 400, 800, 801]) == ([0, 400, 400, 800, 801], 2)


def test_missing_times_are_those_of_the_row_before() -> None:
    assert correct_times([None, 7, None, 9, None]) == ([7, 7, 7, 9, 9], 0)
    assert correct_times([None, None]) == ([0, 0], 0)
    assert correct_times([]) == ([], 0)


def test_ten_thousand_rows_in_reverse_are_corrected() -> None:
    corrected, out_of_order = correct_times([float(at) for at in range(10_000, 0, -1)])
    assert out_of_order == 9_999
    assert corrected[0] <= corrected[-1]
