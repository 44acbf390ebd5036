"""Names as the page shows them."""

from __future__ import annotations

import pytest

from bspforest.explore.names import show_name


@pytest.mark.parametrize("name", ["", "oak", "Größe (cm)", "<i>elm</i>", "高さ", "👩\u200d🌾", "x" * 40])
def test_plain_names_stay(name):
    assert show_name(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb\tc\0", r"a\nb\tc\x00"),
        ("oak\u202egpj.exe", r"oak\u202egpj.exe"),
        ("\u2066a\u2028", r"\u2066a\u2028"),
        ("\udc80", r"\udc80"),
    ],
)
def test_hidden_characters_are_escaped(name, shown):
    assert show_name(name) == shown


def test_names_written_from_right_to_left_are_isolated():
    assert show_name("שלום") == "\u2068שלום\u2069"
    assert show_name("\u2069שלום") == "\u2068\\u2069שלום\u2069"  # which cannot end it


def test_long_names_keep_both_ends():
    name = "first" + "x" * 500 + "last"
    assert len(show_name(name)) == 40
    assert show_name(name).startswith("first") and show_name(name).endswith("last")
    assert show_name(name, 1000) == name
