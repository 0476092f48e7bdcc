"""Sizes of parts that hold a public number of rows."""

from __future__ import annotations

import pytest

from dpexplain.data.rows import even_size


@pytest.mark.parametrize(
    ("rows", "size"),
    [(0, 256), (1, 256), (256, 256), (257, 512), (16_384, 16_384), (16_385, 8_448), (20_190, 10_240), (60_000, 15_104)],
)
def test_parts_are_even(rows, size):
    assert even_size(rows, 2**14) == size


@pytest.mark.parametrize("most", [256, 768, 2**14])
def test_no_part_is_too_large_and_little_is_left_empty(most):
    for rows in range(1, 60_000, 371):
        size, parts = even_size(rows, most), -(-rows // most)
        assert size <= most
        assert size % 256 == 0
        assert 0 <= parts * size - rows < 256 * parts
