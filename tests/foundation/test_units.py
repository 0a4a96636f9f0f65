"""Quantities are read exactly, refused helpfully and written so that they can be read again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import UnitError
from turnbuckle.foundation.units import UNITS, parse, show

FINITE = st.floats(min_value=1e-15, max_value=1e24, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("25 GB/s", "B/s", 25e9),
        ("25GB/s", "B/s", 25e9),
        ("  2 us ", "s", 2e-6),
        ("2 \N{MICRO SIGN}s", "s", 2e-6),
        ("2 \N{GREEK SMALL LETTER MU}s", "s", 2e-6),
        ("1.3 us", "s", 1.3e-6),
        ("100 ns", "s", 1e-7),
        ("1.5 min", "s", 90.0),
        ("2 h", "s", 7200.0),
        ("200 Gb/s", "B/s", 25e9),
        ("200 Gbit/s", "B/s", 25e9),
        ("200 Gbps", "B/s", 25e9),
        ("1 GiB/s", "B/s", 1073741824.0),
        ("1 GB", "B", 1e9),
        ("1 GiB", "B", 1073741824.0),
        ("8 Kib", "B", None),
        ("16 b", "B", 2.0),
        ("64 KiB", "B", 65536.0),
        ("9.7 TFLOP/s", "FLOP/s", 9.7e12),
        ("700 W", "W", 700.0),
        ("29.6 MW", "W", 29.6e6),
        ("1.4 GHz", "Hz", 1.4e9),
        ("85 %", "1", 0.85),
        ("0.85", "1", 0.85),
        ("10x", "1", 10.0),
        ("-1e-3 s", "s", -1e-3),
        (".5 s", "s", 0.5),
        ("5. s", "s", 5.0),
    ],
)
def test_reads(text: str, unit: str, value: float | None) -> None:
    if value is None:
        refused("U002", parse, text, unit)
    else:
        assert parse(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit", "code", "help"),
    [
        ("25", "B/s", "U001", "25 GB/s"),
        ("", "s", "U004", "2 us"),
        ("fast", "s", "U004", "2 us"),
        ("nan s", "s", "U004", ""),
        ("1,5 us", "s", "U004", "comma"),
        ("1_000 us", "s", "U004", "thousands"),
        ("\u0663 s", "s", "U004", ""),
        ("1" * 100 + " s", "s", "U004", ""),
        ("1e400 s", "s", "U005", ""),
        ("4 gb/s", "B/s", "U002", "GB/s (bytes) or Gb/s (bits)"),
        ("4 GBps", "B/s", "U002", "did you mean GB/s?"),
        ("4 TFLOPS", "FLOP/s", "U002", "did you mean TFLOP/s?"),
        ("4 usec", "s", "U002", "did you mean us?"),
        ("4 KB", "B", "U002", "KiB (1024 bytes)"),
        ("4 gHz", "Hz", "U002", "did you mean GHz?"),
        ("4 furlongs", "s", "U002", "2 us"),
        ("4 GB", "B/s", "U003", "did you mean 4 GB/s?"),
        ("4 us", "B/s", "U003", "25 GB/s"),
        ("4 GB/s", "B", "U003", "64 KiB"),
        ("85 %", "s", "U003", "2 us"),
        ("64 GT/s x16", "B/s", "U003", "64 GT/s x16 PCIe 6 is about 121 GB/s each way"),
        ("16 GT/s", "B/s", "U003", "PCIe 4 is about 31.5 GB/s each way"),
        ("8 GT/s x8", "B/s", "U003", "PCIe 3 is about 7.88 GB/s each way"),
        ("7 GT/s", "B/s", "U003", "25 GB/s"),
    ],
)
def test_refuses_with_help(text: str, unit: str, code: str, help: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse(text, unit)
    assert caught.value.code == code
    assert help in "\n".join(caught.value.lines())


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0032, "s", "3.2 ms"),
        (24.1e9, "B/s", "24.1 GB/s"),
        (1.3e-6, "s", "1.3 us"),
        (999.96e-6, "s", "1 ms"),
        (0.0, "s", "0 s"),
        (1234.0, "s", "1230 s"),
        (65536.0, "B", "64 KiB"),
        (80e9, "B", "80 GB"),
        (128000.0, "B", "128 kB"),
        (700.0, "W", "700 W"),
        (0.85, "1", "0.85"),
        (0.85, "%", "85 %"),
        (-5e-6, "s", "-5 us"),
        (math.inf, "s", "inf s"),
    ],
)
def test_shows(value: float, unit: str, text: str) -> None:
    assert show(value, unit) == text


@pytest.mark.parametrize("call", [lambda: parse("1 m", "m"), lambda: show(1.0, "m")])
def test_a_unit_we_do_not_use_is_a_slip_of_the_program(call: object) -> None:
    with pytest.raises(ValueError, match="not a unit"):
        call()  # type: ignore[operator]


@given(FINITE, st.sampled_from(sorted(UNITS)))
def test_round_trip_exact(value: float, unit: str) -> None:
    assert parse(show(value, unit, 17), unit) == pytest.approx(value, rel=1e-15)


@given(FINITE, st.sampled_from(sorted(UNITS)), st.integers(1, 9))
def test_round_trip_to_the_digits_shown(value: float, unit: str, digits: int) -> None:
    assert parse(show(value, unit, digits), unit) == pytest.approx(
        value, rel=0.501 * 10.0 ** (1 - digits)
    )


@given(FINITE, st.sampled_from(sorted(UNITS)))
def test_what_is_shown_once_is_shown_again(value: float, unit: str) -> None:
    text = show(value, unit)
    assert show(parse(text, unit), unit) == text


@given(st.text(max_size=80), st.sampled_from(sorted(UNITS)))
def test_no_text_does_more_than_be_refused(text: str, unit: str) -> None:
    try:
        assert math.isfinite(parse(text, unit))
    except UnitError as error:
        assert error.code in {"U001", "U002", "U003", "U004", "U005"}
        assert all(line.isprintable() for line in error.lines())


@given(st.integers(1, 10**6))
def test_bits_are_an_eighth_and_binary_prefixes_are_powers_of_1024(number: int) -> None:
    assert parse(f"{number} Gb/s", "B/s") * 8 == parse(f"{number} GB/s", "B/s")
    assert parse(f"{number} MiB", "B") == number * 1024**2
