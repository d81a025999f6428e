"""The command line as a user meets it: results, files, one-line failures, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from gradskip_onnx.cli.evaluation_options import LAYOUT_NAMES
from gradskip_onnx.cli.main import COMMANDS, cli
from gradskip_onnx.cli.options import PRESET_NAMES
from gradskip_onnx.cli.study import STUDY_NAMES
from onnx import numpy_helper
from PIL import Image

from gradskip_onnx import api
from gradskip_onnx.datasets import LAYOUTS
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.evaluation.studies import STUDIES
from gradskip_onnx.images.preprocess import PRESETS, Preprocess
from gradskip_onnx.selfcontained.bundle import annotate
from gradskip_onnx.types import Mismatch
from tests.support import models
from tests.support.photographs import png_header

ROOT = Path(__file__).parent.parent.parent
SETTINGS = ["--preset", "half", "--crop", "1.0"]
BATCHED = 1e-5  # float32 sums inside ONNX Runtime depend on the batch size


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def fails(result: Result, code: int, *texts: str) -> None:
    """One line that says it, the right exit code, no traceback."""
    assert result.exit_code == code, result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, result.stderr
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    for text in texts:
        assert text in errors[0]


def segmenter() -> onnx.ModelProto:
    """A transformer that scores three classes at each of its 4x4 tokens."""
    shape = models.Vit(special=0)
    w = models.Writer(np.random.default_rng(3))
    tokens, count = models._embed(w, shape)
    for _ in range(shape.depth):
        tokens = models._block(w, shape, tokens, count)
    turned = w.op("Transpose", w.linear(tokens, shape.width, 3), perm=[0, 2, 1])
    w.op("Reshape", turned, w.ints(0, 3, 4, 4))
    w.nodes[-1].output[0] = "logits"
    batch = ["batch", 3]
    return models.finish(w, {"image": (1, [*batch, 32, 32])}, {"logits": (1, [*batch, 4, 4])}, shape.opset)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and images, good and bad."""
    folder: Path = tmp_path_factory.mktemp("files")
    good, broken = models.vit(models.Vit(depth=3)), models.vit()
    broken.graph.initializer[-1].CopyFrom(
        numpy_helper.from_array(np.full(5, np.nan, np.float32), broken.graph.initializer[-1].name)
    )
    for name, model in {
        "vit": good,
        "nan": broken,
        "four": models.vit(models.Vit(channels=4)),
        "cnn": models.cnn(),
        "text": models.text_model(),
        "seg": segmenter(),
    }.items():
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    data = (folder / "vit.onnx").read_bytes()
    (folder / "cut.onnx").write_bytes(data[: len(data) // 2])
    (folder / "prose.onnx").write_text("this is no model\n" * 40)
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "photos").mkdir()
    rng = np.random.default_rng(5)
    for index, (height, width) in enumerate([(48, 64), (64, 40), (33, 90)]):
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"p{index}.png")
    (folder / "photos" / "notes.txt").write_text("not an image")
    (folder / "corrupt.png").write_bytes((folder / "photos" / "p0.png").read_bytes()[:500])
    (folder / "prose.png").write_text("no image")
    (folder / "huge.png").write_bytes(png_header(20_000, 20_000))
    (folder / "labels.txt").write_text("ant\nbee\ncat\ndog, hound\nelk\n")
    return folder


# --- help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_is_in_the_readme(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"gradskip-onnx {command}" in result.stdout.split("Examples:")[1]
    assert f"gradskip-onnx {command}" in (ROOT / "README.md").read_text()


def test_group_help_names_every_command():
    result = run("--help")
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"  {command} " in result.stdout


def test_help_is_quick_to_load():
    code = (
        "import sys\nfrom gradskip_onnx.cli.main import cli\n"
        "for words in (['--help'], ['explain', '--help'], ['inspect', '--help']):\n"
        "    cli(words, standalone_mode=False)\n"
        "print([m for m in ('torch', 'onnxruntime', 'onnx', 'numpy', 'PIL', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version():
    assert run("--version").stdout.startswith("gradskip-onnx, version ")


# --- explain -------------------------------------------------------------------------------------------------------


def test_one_image(place, tmp_path):
    image = place / "photos" / "p0.png"
    result = run("explain", place / "vit.onnx", image, "-o", tmp_path, "--labels", place / "labels.txt", *SETTINGS)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p0.json", "p0.npy", "p0.png"]
    settings = {"crop": 1.0, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    expected = api.load(place / "vit.onnx", preprocess=settings, low_memory=True).explain(image)
    np.testing.assert_array_equal(np.load(tmp_path / "p0.npy"), expected.map)
    document = json.loads((tmp_path / "p0.json").read_text())
    assert document["target"]["index"] == expected.target.index
    assert document["preprocess"]["mean"] == [0.5, 0.5, 0.5]
    assert document["model"]["sha256"] == expected.model_sha256
    assert np.shape(document["grid"]["scores"]) == (32, 32)  # pixels
    assert (document["method"], document["score"]) == ("gradskip+", "the method's own")
    assert "by gradskip+" in result.stdout
    for text in ("CPUExecutionProvider", "probability", "ant (0)", "bee (1)", "cat (2)", "dog, hound (3)", "elk (4)"):
        assert text in result.stdout
    assert str(tmp_path / "p0.png") in result.stdout
    assert result.stderr == ""
    assert "\x1b" not in result.stdout


TARGETS = [("3", 3), ("dog, hound", 3), ("hound", 3), ("BEE", 1)]


@pytest.mark.parametrize(("text", "index"), TARGETS)
def test_target_by_number_and_by_name(place, tmp_path, text, index):
    result = run(
        "explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--target", text,
        "--labels", place / "labels.txt", "--json", *SETTINGS,
    )  # fmt: skip
    assert json.loads(result.stdout)["target"]["index"] == index


def test_top5_writes_a_map_for_each_class(place, tmp_path):
    result = run(
        "explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--target", "top5",
        "--labels", place / "labels.txt", "--json", *SETTINGS,
    )  # fmt: skip
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(entry["target"]["index"] for entry in documents) == [0, 1, 2, 3, 4]
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "p0.0_ant.png", "p0.1_bee.png", "p0.2_cat.png", "p0.3_dog.png", "p0.4_elk.png"
    }  # fmt: skip
    maps = [np.load(entry["files"]["npy"]) for entry in documents]
    assert not np.array_equal(maps[0], maps[1])
    fails(
        run("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--target", "top5",
            "--labels", place / "labels.txt", *SETTINGS), 2, "exists", "--force",
    )  # fmt: skip


def test_json_is_one_document_and_nothing_else(place, tmp_path):
    result = run("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--json")
    document = json.loads(result.stdout)
    assert document["format"] == 1
    assert set(document["files"]) == {"png", "npy", "json"}
    assert Path(document["files"]["png"]).is_file()
    assert "assumed mean 0.485" in result.stderr


MANY = [["photos"], ["photos/*.png"], ["photos/p0.png", "photos/p1.png", "photos/p2.png"], ["photos", "photos/p1.png"]]


@pytest.mark.parametrize("names", MANY, ids=str)
def test_folders_and_patterns(place, tmp_path, names):
    paths = [place / name for name in names]
    result = run("explain", place / "vit.onnx", *paths, "-o", tmp_path, *SETTINGS)
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.glob("*.png")} == {"p0.png", "p1.png", "p2.png"}
    lines = [line for line in result.stdout.splitlines() if " -> " in line]
    assert [line.split(":")[0] for line in lines] == ["p0.png", "p1.png", "p2.png"]


def test_a_batch_equals_its_images(place, tmp_path):
    for size in (1, 2):
        assert run("explain", place / "vit.onnx", place / "photos", "-o", tmp_path / str(size), "--batch-size", size,
                   *SETTINGS).exit_code == 0  # fmt: skip
    for name in ("p0", "p1", "p2"):
        single, joint = (np.load(tmp_path / str(size) / f"{name}.npy") for size in (1, 2))
        np.testing.assert_allclose(joint, single, atol=BATCHED * single.max())


@pytest.mark.parametrize("size", [1, 4])
def test_one_bad_image_does_not_stop_the_rest(place, tmp_path, size):
    bad = [place / "corrupt.png", place / "missing.png"]
    result = run("explain", place / "vit.onnx", place / "photos" / "p0.png", *bad, place / "photos" / "p1.png",
                 "-o", tmp_path, "--json", "--batch-size", size, *SETTINGS)  # fmt: skip
    assert result.exit_code == 6
    assert {path.name for path in tmp_path.glob("*.json")} == {"p0.json", "p1.json"}
    for path in bad:
        assert f"error: {path}" in result.stderr
    assert "2 of 4 images failed" in result.stderr
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["error" in entry for entry in documents] == [False, True, True, False]


def test_all_images_failing_is_6_too(place, tmp_path):
    result = run("explain", place / "vit.onnx", place / "corrupt.png", place / "prose.png", "-o", tmp_path)
    assert result.exit_code == 6
    assert "2 of 2 images failed" in result.stderr


def test_same_stem_twice(place, tmp_path):
    (tmp_path / "b").mkdir()
    Image.new("RGB", (20, 20), "red").save(tmp_path / "b" / "p0.jpg")
    result = run("explain", place / "vit.onnx", place / "photos" / "p0.png", tmp_path / "b" / "p0.jpg",
                 "-o", tmp_path / "o")  # fmt: skip
    assert result.exit_code == 0
    assert np.load(tmp_path / "o" / "p0.npy").shape == (48, 64)
    assert np.load(tmp_path / "o" / "p0-2.npy").shape == (20, 20)


def test_existing_output_needs_force(place, tmp_path):
    command = ("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path)
    assert run(*command).exit_code == 0
    fails(run(*command), 2, "p0.png exists", "--force")
    assert run(*command, "--force").exit_code == 0


BAD_MODELS = [
    ("cut.onnx", 2, ["cut.onnx", "not an ONNX file"]),
    ("prose.onnx", 2, ["prose.onnx"]),
    ("empty.onnx", 2, ["empty.onnx"]),
    ("missing.onnx", 2, ["missing.onnx", "does not exist"]),
    ("photos", 2, ["photos"]),
    ("nan.onnx", 2, ["NaN"]),
    ("four.onnx", 2, ["4 channels"]),
    ("cnn.onnx", 3, ["[no-attention]"]),
    ("text.onnx", 3, ["[no-image-input]"]),
]


@pytest.mark.parametrize(("name", "code", "texts"), BAD_MODELS, ids=[row[0] for row in BAD_MODELS])
def test_bad_models(place, tmp_path, name, code, texts):
    fails(run("explain", place / name, place / "photos", "-o", tmp_path / "o"), code, *texts)
    assert list((tmp_path / "o").iterdir()) == []


BAD_IMAGES = [
    ("corrupt.png", ["corrupt.png", "broken image"]),
    ("prose.png", ["prose.png", "not an image"]),
    ("huge.png", ["huge.png", "400000000", "limit 100000000"]),
    ("missing.png", ["missing.png", "no such image"]),
    ("nothing/*.png", ["no file matches"]),
]


@pytest.mark.parametrize(("name", "texts"), BAD_IMAGES, ids=[row[0] for row in BAD_IMAGES])
def test_bad_images(place, tmp_path, name, texts):
    fails(run("explain", place / "vit.onnx", place / name, "-o", tmp_path / "o"), 2, *texts)


BAD_OPTIONS: list[tuple[list[str], int, list[str]]] = [
    (["--target", "99"], 2, ["class 99", "0 to 4"]),
    (["--target", "-1"], 2, ["class -1"]),
    (["--target", "unicorn"], 2, ["labels are not known"]),
    (["--target", "unicorn", "--labels", "labels.txt"], 2, ["unicorn"]),
    (["--labels", "missing.txt"], 2, ["missing.txt"]),
    (["--method", "magic"], 2, ["magic", "gradskip"]),
    (["-O", "nonsense=1"], 2, ["nonsense", "against"]),
    (["-O", "alpha"], 2, ["NAME=VALUE"]),
    (["-O", "alpha=much"], 2, ["alpha", "much"]),
    (["--alpha", "1.5"], 2, ["alpha", "1.5"]),
    (["--gamma", "nan"], 2, ["gamma"]),
    (["--region", "3,4"], 2, ["segmentation"]),
    (["--crop", "0"], 2, ["crop"]),
    (["--std", "1", "1", "0"], 2, ["std"]),
    (["--device", "cuda", "--require-device"], 4, ["cuda"]),
]


@pytest.mark.parametrize(("options", "code", "texts"), BAD_OPTIONS, ids=str)
def test_bad_options_fail_once_however_many_images(place, tmp_path, monkeypatch, options, code, texts):
    monkeypatch.chdir(place)
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    fails(run("explain", "vit.onnx", "photos", "-o", tmp_path / "o", *options), code, *texts)


USAGE = [["--size", "x"], ["--size", "0"], ["--threads", "0"], ["--score", "x"], ["--device", "tpu"], ["--no"]]


@pytest.mark.parametrize("options", USAGE, ids=str)
def test_usage_errors(place, options):
    result = run("explain", place / "vit.onnx", place / "photos", *options)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_a_model_without_images_is_a_usage_error(place):
    result = run("explain", place / "vit.onnx")
    assert result.exit_code == 2
    assert "at least one image" in result.stderr


def test_output_that_cannot_be_written(place, tmp_path):
    (tmp_path / "file").write_text("x")
    result = run("explain", place / "vit.onnx", place / "photos", "-o", tmp_path / "file" / "o")
    fails(result, 2, "output", "cannot be written")


def test_output_is_checked_before_the_model_is_read(tmp_path):
    (tmp_path / "p0.json").write_text("{}")
    fails(run("explain", tmp_path / "none.onnx", tmp_path / "p0.png", "-o", tmp_path), 2, "p0.json exists")


def test_method_options_reach_the_method(place, tmp_path):
    common = ("explain", place / "vit.onnx", place / "photos" / "p0.png", "--json", *SETTINGS)
    first = json.loads(run(*common, "-o", tmp_path / "a", "--method", "gradskip").stdout)
    result = run(*common, "-o", tmp_path / "b", "--alpha", "0.9", "-O", "gate=branch", "-O", "renorm_rows=yes")
    second = json.loads(result.stdout)
    assert second["method"] == "gradskip"  # alpha is its option, and no method was named
    assert (first["options"]["alpha"], second["options"]["alpha"]) == (0.5, 0.9)
    assert second["options"]["gate"] == "branch"
    assert second["options"]["renorm_rows"] is True
    assert first["grid"]["scores"] != second["grid"]["scores"]


@pytest.mark.parametrize(("words", "name"), [((), "gradskip+"), (("--method", "rise"), "rise")])
def test_help_on_options_is_elsewhere(words, name):
    """-O takes values only; whoever asks it for help is told where the options are listed."""
    fails(run("explain", "-O", "help", *words), 2, f"gradskip-onnx methods {name}")


def test_names_in_the_help_are_those_of_the_tables():
    """The command line repeats them, so that --help need not import the tables."""
    assert tuple(PRESETS) == PRESET_NAMES
    assert tuple(LAYOUTS) == LAYOUT_NAMES
    assert tuple(STUDIES) == STUDY_NAMES


def test_settings_beside_the_model(place, tmp_path):
    (tmp_path / "model.onnx").write_bytes((place / "vit.onnx").read_bytes())
    half = {"do_normalize": True, "size": 32, "image_mean": [0.4] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(half))
    (tmp_path / "config.json").write_text(json.dumps({"id2label": dict(enumerate("abcde"))}))
    command = ("explain", tmp_path / "model.onnx", place / "photos" / "p0.png", "--target", "c", "--json")
    result = run(*command, "-o", tmp_path / "a")
    document = json.loads(result.stdout)
    assert document["preprocess"]["mean"] == [0.4] * 3
    assert document["preprocess"]["source"] == "preprocessor_config.json"
    assert document["target"] == document["target"] | {"index": 2, "label": "c"}
    assert result.stderr == ""
    result = run(*command, "-o", tmp_path / "b", "--mean", "0.1", "0.2", "0.3")
    document = json.loads(result.stdout)
    assert document["preprocess"]["mean"] == [0.1, 0.2, 0.3]
    assert document["preprocess"]["std"] == [0.5] * 3
    assert "command line" in document["preprocess"]["source"]


def test_settings_and_labels_from_the_file_itself(place, tmp_path):
    model = annotate(models.vit(), preprocess=Preprocess(size=(32, 32), crop=0.5, source="its maker"), labels="abcde")
    (tmp_path / "told.onnx").write_bytes(model.SerializeToString())
    result = run("explain", tmp_path / "told.onnx", place / "photos" / "p0.png", "-o", tmp_path / "o", "--json",
                 "--target", "d", "--score", "probability", "--threads", "1", "--method", "gradskip")  # fmt: skip
    document = json.loads(result.stdout)
    assert document["preprocess"]["crop"] == 0.5
    assert document["preprocess"]["source"] == "its maker"
    assert document["target"]["index"] == 3
    assert document["score"] == "probability"
    assert result.stderr == ""
    # half of the short side of 64x48, centred, but for the rounding of the resized width
    assert document["image"]["seen_box"] == pytest.approx([20.0, 12.0, 44.0, 36.0], abs=0.5)
    values = np.load(document["files"]["npy"])
    assert (values[:12] == 0).all()
    assert (values[12:36, 20:44] > 0).all()


def test_quiet_and_verbose(place, tmp_path):
    command = ("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--force")
    assert "warning: preprocessing" in run(*command).stderr
    assert run(*command, "--quiet").stderr == ""
    assert "time: " in run(*command, "-v").stderr


def test_interruption_is_130(place, tmp_path, monkeypatch):
    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "load", interrupted)
    result = run("explain", place / "vit.onnx", place / "photos", "-o", tmp_path)
    assert result.exit_code == 130
    assert result.stderr == "error: interrupted\n"


def test_names_cannot_steer_the_terminal(place, tmp_path):
    (tmp_path / "labels.json").write_text(json.dumps(["\x1b[31mred\x1b[0m\n[bold]"] * 5))
    image = tmp_path / "a\x1b[2J.png"
    Image.new("RGB", (32, 32)).save(image)
    arguments = ["explain", place / "vit.onnx", image, tmp_path / "b\x1b.png", "-o", tmp_path / "o"]
    result = run(*arguments, "--labels", tmp_path / "labels.json")
    assert result.exit_code == 6
    assert "\x1b" not in result.output
    assert "[bold]" in result.stdout


# --- segmentation --------------------------------------------------------------------------------------------------


def test_regions_of_a_segmentation(place, tmp_path):
    mask = np.zeros((48, 64), np.uint8)
    mask[24:, 32:] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    common = ("explain", place / "seg.onnx", place / "photos" / "p0.png", "--target", "1", "--json", *SETTINGS)
    scores = []
    for index, region in enumerate((None, "40,30", tmp_path / "mask.png")):
        options = () if region is None else ("--region", region)
        result = run(*common, "-o", tmp_path / str(index), *options)
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["task"] == "segmentation"
        assert document["region"] == (None if region is None else str(region))
        scores.append(document["grid"]["scores"])
    assert scores[0] != scores[1] != scores[2] != scores[0]


BAD_REGIONS = [
    ("400,30", ["400,30", "outside"]),
    ("missing.png", ["missing.png"]),
    ("photos/p1.png", ["mask"]),
    ("black.png", ["black.png", "empty"]),
]


@pytest.mark.parametrize(("region", "texts"), BAD_REGIONS, ids=str)
def test_bad_regions(place, tmp_path, monkeypatch, region, texts):
    monkeypatch.chdir(place)
    Image.new("L", (64, 48)).save(place / "black.png")
    fails(run("explain", "seg.onnx", "photos/p0.png", "--region", region, "-o", tmp_path), 2, *texts)


def test_a_segmentation_reports_shares_of_pixels(place, tmp_path):
    result = run("explain", place / "seg.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--target", "top5")
    assert result.exit_code == 0, result.output
    assert "share of pixels" in result.stdout
    present = [json.loads(path.read_text())["target"] for path in tmp_path.glob("*.json")]
    assert sum(entry["probability"] for entry in present) == pytest.approx(1.0)


# --- inspect -------------------------------------------------------------------------------------------------------


def test_inspect_shows_blocks_and_proofs(place):
    result = run("inspect", place / "vit.onnx")
    assert result.exit_code == 0
    assert "3 blocks" in result.stdout
    architecture = api.inspect(place / "vit.onnx")
    for block in architecture.blocks:
        for name in (block.attention, block.tokens_in, block.tokens_out, block.branch):
            assert name in result.stdout
    for text in ("4x4", "1 (at 0)", "Bx2x17x17", "Bx17x12", "rows of the attention sum to 1", "5 classes"):
        assert text in result.stdout
    detailed = run("inspect", place / "vit.onnx", "--why").stdout
    assert f"{len(architecture.proofs)} proofs" in detailed
    for proof in architecture.proofs:
        assert proof.where in detailed


def test_inspect_json(place):
    document = json.loads(run("inspect", place / "vit.onnx", "--json").stdout)
    assert document["supported"] is True
    assert document["grid"] == [4, 4]
    assert len(document["blocks"]) == 3
    assert all(proof["holds"] for proof in document["proofs"])
    assert document["shapes"][document["blocks"][0]["attention"]] == [None, 2, 17, 17]


@pytest.mark.parametrize(("name", "code", "texts"), [row for row in BAD_MODELS if row[0] != "four.onnx"])
def test_inspect_bad_models(place, name, code, texts):
    fails(run("inspect", place / name), code, *texts)


def test_inspect_says_why_not(place, monkeypatch):
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise UnsupportedModelError(
            "no-attention", "nothing found", [Mismatch("attention", "soft_7", "why-not", "no V")]
        )

    monkeypatch.setattr("gradskip_onnx.graph.architecture.read", refuse)
    result = run("inspect", place / "vit.onnx", "--why")
    fails(result, 3, "[no-attention]")
    for text in ("soft_7", "why-not", "no V"):
        assert text in result.stdout
    result = run("inspect", place / "vit.onnx", "--json")
    fails(result, 3, "[no-attention]")
    document = json.loads(result.stdout)
    assert (document["supported"], document["code"]) == (False, "no-attention")
    assert document["unmatched"][0]["node"] == "soft_7"


# --- as a program --------------------------------------------------------------------------------------------------


def program(*arguments: object, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "gradskip_onnx.cli", *map(str, arguments)],
        capture_output=True, text=True, env=os.environ | variables, check=False,
    )  # fmt: skip


def test_program_separates_results_from_the_rest(place, tmp_path):
    done = program("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--json")
    assert done.returncode == 0
    json.loads(done.stdout)
    assert done.stderr.startswith("warning: ")
    assert "\x1b" not in done.stdout + done.stderr


def test_labels_the_terminal_cannot_show(place, tmp_path):
    (tmp_path / "labels.json").write_text(json.dumps(["猫", "犬", "é", "ö", "→"]))
    done = program("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path,
                   "--labels", tmp_path / "labels.json", PYTHONIOENCODING="ascii")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "? (0)" in done.stdout


def test_program_fails_in_one_line(place, tmp_path):
    done = program("explain", place / "cnn.onnx", place / "photos" / "p0.png", "-o", tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=["terminal", "NO_COLOR"]
)
def test_colours_on_a_terminal_only_and_never_with_no_color(place, tmp_path, variables, coloured):
    import pty

    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | {
        "TERM": "xterm-256color"
    }
    command = [
        sys.executable,
        "-P",
        "-m",
        "gradskip_onnx.cli",
        "explain",
        "vit.onnx",
        "photos/p0.png",
        "-o",
        str(tmp_path),
    ]
    subprocess.run(
        command, stderr=theirs, stdout=subprocess.DEVNULL, env=environment | variables, cwd=place, check=True
    )
    os.close(theirs)
    text = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "warning: preprocessing" in text
    assert ("\x1b[33m" in text) == coloured
