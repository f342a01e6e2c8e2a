"""JSON of which only the beginning was read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steady_queue.monitoring.jobs.cut_json import load_beginning

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def is_beginning(part: Any, whole: Any) -> bool:
    """Whether a value is the beginning of another one."""
    if isinstance(part, str) and isinstance(whole, str):
        return part == whole or (part.endswith("…") and whole.startswith(part[:-1]))
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_beginning, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_beginning(value, whole[key]) for key, value in part.items())
    return bool(part == whole)


# The same examples in every run, however slow the machine is.
@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_values), st.data())
def test_a_beginning_of_a_list_is_read_as_the_beginning_of_its_values(value: list[Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    end = data.draw(st.integers(1, len(text)))
    assert is_beginning(load_beginning(text[:end]), value)
    assert load_beginning(text) == value


@pytest.mark.parametrize("value", ["😀", "\\ud83d", "\\\\ud83d", "\\😀", '"\\'])
def test_a_string_can_be_cut_at_every_character(value: str) -> None:
    text = json.dumps([value])
    for end in range(1, len(text) + 1):
        assert is_beginning(load_beginning(text[:end]), [value]), text[:end]


@pytest.mark.parametrize("text", ["", "}", ",", "{{", "nothing", "[" * 100_000, '{"a" 1}'])
def test_what_is_not_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        load_beginning(text)
