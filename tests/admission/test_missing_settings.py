"""A setting that is needed and not given is told, whatever its form."""

import typing

import pytest

from reconciler.admission import bindings
from reconciler.model.resources import Setting

_FORMS = typing.get_args(typing.get_args(Setting.__annotations__["format"])[0])


@pytest.mark.parametrize("form", [None, *_FORMS])
def test_each_form_of_setting_has_an_example_to_put_in(form: str | None) -> None:
    assert bindings._EXAMPLES[form]
