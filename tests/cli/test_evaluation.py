"""`gradskip-onnx evaluate` as a user meets it."""

from __future__ import annotations

import json

import pytest
from click.testing import Result

from tests.support.command_line import run
from tests.support.evaluation_data import FLAGS, model_bytes, pictures

FAST = ("--resamples", "100", "--threads", "1", *FLAGS)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "model.onnx").write_bytes(model_bytes())
    pictures(folder / "data", 4)
    return folder


def evaluate(place, *arguments: object) -> Result:
    return run("evaluate", place / "model.onnx", place / "data", *FAST, *arguments)


def test_a_table_and_three_files(place, tmp_path):
    methods, metrics = (
        "gradskip,gradskip[gamma=0.9],rollout",
        "insertion-deletion[steps=3],faithfulness-violation,gflops",
    )
    found = evaluate(place, "--methods", methods, "--metrics", metrics, "-o", tmp_path / "out", "--pictures", 2)

    assert found.exit_code == 0, found.output
    for text in ("gradskip[gamma=0.9]", "insertion-deletion[steps=3] ↑", "GFLOPs", "minus gradskip", "1 + 1"):
        assert text in found.stdout
    lines = [" ".join(line.split()) for line in found.stdout.splitlines()]
    assert "p in parentheses corrected for 4 comparisons (Holm)" in lines
    told = "insertion-deletion[steps=3]: gradskip is not told apart from gradskip[gamma=0.9], rollout"
    assert any(told in line for line in lines)  # four images tell nothing apart
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".gradskip-lock", "evaluation.json", "pictures", "report.html",
        "results.csv", "results.json", "results.jsonl", "timings.jsonl",
    ]  # fmt: skip
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 2 * (1 + 3)
    assert "--pictures 2" in page


def test_json_on_standard_output(place, tmp_path):
    found = evaluate(place, "--methods", "rollout", "--metrics", "insertion[steps=2]", "-o", tmp_path, "--json")

    document = json.loads(found.stdout)
    assert document["methods"][0]["results"]["insertion[steps=2]"]["found"]["count"] == 4
    assert document["files"][2].endswith("report.html")


def test_halves_share_no_image(place, tmp_path):
    for part in ("1/2", "2/2"):
        evaluate(
            place, "--methods", "rollout", "--metrics", "insertion[steps=2]", "--part", part, "-o", tmp_path / part
        )
    images = [
        {json.loads(line)["image"] for line in (tmp_path / part / "results.jsonl").read_text().splitlines()}
        for part in ("1/2", "2/2")
    ]

    assert images == [{"00.png", "02.png"}, {"01.png", "03.png"}]


def test_some_images_failed(place, tmp_path):
    data = pictures(tmp_path / "data", 3)
    (data / "02.png").write_bytes(b"no picture")
    chosen = ("--methods", "rollout", "--metrics", "insertion[steps=2]")
    found = run("evaluate", place / "model.onnx", data, *FAST, *chosen, "-o", tmp_path / "out")

    assert found.exit_code == 6
    assert "1 measurements failed, the first: 02.png, rollout:" in found.stderr
    assert (tmp_path / "out" / "report.html").exists()
    assert "(1 left out)" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "gradship"), "unknown method 'gradship'"),
        (("--metrics", "insertion[stops=3]"), "option 'stops=3'"),
        (("--part", "3/2"), "write I/N"),
        (("--layout", "ade20k"), "not of layout ade20k"),
        (("--reference", "tam"), "not among the methods"),
        (("--labels", "nowhere.txt"), "nowhere.txt"),
    ],
)
def test_wrong_input_is_one_line(place, tmp_path, arguments, message):
    found = evaluate(place, "-o", tmp_path, *arguments)

    assert found.exit_code == 2
    assert message in found.stderr
    assert found.stderr.count("error:") == 1


def test_data_that_is_not_there(place, tmp_path):
    found = run("evaluate", place / "model.onnx", tmp_path / "nowhere", "-o", tmp_path)

    assert found.exit_code == 2
    assert "no such file or folder" in found.stderr
