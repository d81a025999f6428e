"""Lists of methods and metrics as users write them."""

from __future__ import annotations

import pytest
from gradskip_onnx.cli.listing import read_list, read_methods, read_metrics

from gradskip_onnx.errors import InputError
from gradskip_onnx.evaluation.metric_kinds import GroupMetric, MethodMetric
from gradskip_onnx.methods import METHODS
from gradskip_onnx.metrics import METRICS, ImageMetric


def test_names_and_options():
    found = read_list(" gradskip[gamma=0.1, alpha=1] ,rise,grad-cam++ [ layer=normed ]")

    assert found == [("gradskip", ("gamma=0.1", "alpha=1")), ("rise", ()), ("grad-cam++", ("layer=normed",))]


@pytest.mark.parametrize("text", ["", "gradskip[gamma=0.1", "gradskip]", "a[b[c]]", ",gradskip", "a b", "[x=1]"])
def test_lists_that_are_none(text):
    with pytest.raises(InputError, match=r"NAME\[OPTION=VALUE"):
        read_list(text)


def test_options_have_the_types_of_their_fields():
    first, second = read_methods("gradskip[gamma=0,steps=2,renorm_rows=yes],gradskip[gamma=0.25]")

    assert (first.options.gamma, first.options.steps, first.options.renorm_rows) == (0.0, 2, True)
    assert isinstance(first.options.gamma, float)
    assert first.label == "gradskip[gamma=0.0,steps=2,renorm_rows=True]"
    assert second.label == "gradskip"  # the default said aloud is the default


def test_labels_can_be_typed_again():
    (once,) = read_methods("gradskip[gamma=0,renorm_rows=yes]")
    (again,) = read_methods(once.label)

    assert again == once


def test_all_leaves_out_what_is_named():
    found = [choice.label for choice in read_methods("rise[masks=10],all")]

    assert found[0] == "rise[masks=10]"
    assert sorted(found[1:]) == sorted(set(METHODS) - {"rise"})


def test_metrics_of_three_kinds():
    found = read_metrics("insertion[substrate=black,steps=7],gflops,randomisation[images=2]")

    assert [each.label for each in found] == ["insertion[substrate=black,steps=7]", "gflops", "randomisation[images=2]"]
    assert [type(each.row) for each in found] == [ImageMetric, MethodMetric, GroupMetric]


def test_all_metrics_of_every_kind():
    found = [each.label for each in read_metrics("randomisation[images=2],all")]

    assert found[0] == "randomisation[images=2]"
    assert set(found[1:]) == {*METRICS, "gflops", "class-sensitivity", "noise-stability", "zero-shift", "spelling"}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_methods, "gradship", "unknown method 'gradship'"),
        (read_methods, "gradskip[gama=1]", "NAME one of alpha, gamma"),
        (read_methods, "gradskip[gamma=2]", "gamma: got 2.0, allowed"),
        (read_methods, "gradskip[gamma=high]", "'high' is not a value of type float"),
        (read_methods, "rollout[]x", r"NAME\[OPTION=VALUE"),
        (read_metrics, "insertian", "unknown metric 'insertian'"),
        (read_metrics, "insertion[substrate=grey]", "substrate: got 'grey'"),
        (read_metrics, "randomisation[images=0]", "images: got 0"),
        (read_metrics, "gflops[unit=1]", r"NAME one of \(none\)"),
    ],
)
def test_mistakes_are_named(read, text, message):
    with pytest.raises(InputError, match=message):
        read(text)
