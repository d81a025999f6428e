"""One byte that is changed anywhere makes the check fail and is named; what was not checked is said."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from gradskip_onnx.audit.parts import read_part
from gradskip_onnx.errors import InputError
from gradskip_onnx.evidence.hashes import START, next_link
from gradskip_onnx.evidence.manifest import MANIFEST, read_manifest, sealed, write_manifest
from gradskip_onnx.evidence.verify import Verification, Verified, verify
from tests.evidence.conftest import BOXES, COUNT, Case, audited, with_boxes
from tests.support.evaluation_data import pictures


def checked(case: Case, *, sources: bool = True, **asked: Any) -> Verified:
    where: dict[str, Any] = {"model": case.model, "data": str(case.data)} if sources else {}
    return verify(Verification(case.place, **where, **asked))


def flip(path: Path, at: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[at if at >= 0 else len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def failures(found: Verified) -> list[str]:
    return [check.what for check in found.failed]


def test_an_untouched_audit_is_verified(case: Case):
    found = checked(case)

    assert found.failed == ()
    assert {check.state for check in found.checks} == {"ok"}
    assert found.manifest == hashlib.sha256((case.folder / MANIFEST).read_bytes()).hexdigest() == case.sha256
    assert {"audit.json", "report.html", "parts/part-00002.parquet", "chain of parts", "model m.onnx", "images"} <= {
        check.what for check in found.checks
    }


@pytest.mark.parametrize(
    "file", ["audit.json", "report.html", "parts/part-00000.parquet", "parts/part-00002.parquet", "manifest.json"]
)
def test_a_flipped_byte_of_the_folder_is_named(case: Case, file: str):
    flip(case.folder / file)

    assert file in failures(checked(case, sources=False))


def test_no_byte_of_the_manifest_can_be_flipped_unseen(case: Case):
    """Every byte, also of names and of the time, and also white space."""
    content = (case.folder / MANIFEST).read_bytes()
    for at in range(0, len(content), 7):
        changed = bytearray(content)
        changed[at] ^= 1
        (case.folder / MANIFEST).write_bytes(bytes(changed))

        assert failures(checked(case, sources=False)) == [MANIFEST], at


@pytest.mark.parametrize("change", [lambda text: text + b"\n", lambda text: text.replace(b"  ", b" ", 1)])
def test_a_manifest_in_other_words_is_changed(case: Case, change):
    (case.folder / MANIFEST).write_bytes(change((case.folder / MANIFEST).read_bytes()))

    assert failures(checked(case, sources=False)) == [MANIFEST]


def test_a_flipped_byte_of_the_model_is_named(case: Case):
    flip(case.model)

    assert failures(checked(case)) == ["model m.onnx"]


def test_a_flipped_byte_of_an_image_is_named(case: Case):
    flip(case.data / "07.png", 8)

    assert failures(checked(case)) == ["image 07.png"]


def test_a_flipped_byte_of_a_file_that_is_no_image_is_named(case: Case):
    """It was not explained, and still it is evidence: the file that failed is the one that lies there."""
    flip(case.data / "04.png")

    assert failures(checked(case)) == ["image 04.png"]


def test_boxes_and_masks_are_evidence(tmp_path: Path):
    case = with_boxes(tmp_path)
    data = str(case.data / "list.csv")
    assert checked(case, sources=False, model=case.model, data=data).failed == ()

    (case.data / "list.csv").write_text(BOXES.replace("0 0 16 16", "0 0 16 17"))
    assert failures(checked(case, sources=False, data=data)) == ["boxes or masks of image 00.png"]

    (case.data / "list.csv").write_text(BOXES)
    Image.new("L", (32, 32), 255).save(case.data / "mask.png")
    assert failures(checked(case, sources=False, data=data)) == ["boxes or masks of image 01.png"]


def test_an_image_that_could_not_be_read_is_said_to_be_unknown(tmp_path: Path):
    data = pictures(tmp_path / "data", 3)
    (data / "01.png").unlink()
    case = audited(tmp_path, data)
    found = [(check.state, check.text) for check in checked(case).checks if check.what == "images"]

    assert found == [("not checked", "1 could not be read then, so their hashes are not known"), ("ok", "2 of 3")]


@pytest.mark.slow
def test_wherever_a_byte_is_flipped_the_file_is_named(case: Case):
    """Fifty places in each file of an audit, also where Parquet and JSON are no longer read."""
    rng = np.random.default_rng(0)
    for path in sorted(path for path in case.folder.rglob("*") if path.is_file() and path.name[0] != "."):
        content, name = path.read_bytes(), path.relative_to(case.folder).as_posix()
        for at in rng.integers(len(content), size=50).tolist():
            changed = bytearray(content)
            changed[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(changed))
            assert name in failures(checked(case)), (name, at)
        path.write_bytes(content)


def test_what_else_was_changed_is_named_too(case: Case):
    """Neither a changed audit.json nor a changed part keeps images of other parts from being checked."""
    flip(case.folder / "audit.json")
    flip(case.folder / "parts" / "part-00000.parquet")
    flip(case.data / "07.png", 8)
    found = checked(case)

    assert [*dict.fromkeys(failures(found))] == ["audit.json", "parts/part-00000.parquet", "image 07.png"]
    unchecked = [check.text for check in found.checks if check.state == "not checked"]
    assert unchecked == ["4 are of parts that were changed, so their hashes are not known"]


def test_another_image_in_place_of_one_is_named(case: Case):
    (case.data / "03.png").rename(case.data / "03b.png")
    table = (case.data / "labels.csv").read_text().replace("03.png", "03b.png")
    (case.data / "labels.csv").write_text(table)

    assert "image 03.png" in failures(checked(case))


def test_a_missing_image_is_named(case: Case):
    (case.data / "09.png").unlink()

    assert "image 09.png" in failures(checked(case))


def test_a_label_that_was_changed_is_named(case: Case):
    table = case.data / "labels.csv"
    table.write_text(table.read_text().replace("03.png,3", "03.png,2"))

    assert failures(checked(case)) == ["labels"]


def test_what_is_not_checked_is_said(case: Case):
    (case.folder / "later.txt").write_text("added")
    case.data.rename(case.data.with_name("elsewhere"))
    facts = json.loads((case.folder / "audit.json").read_text())
    found = {check.what: check for check in checked(case, sources=False).checks}

    assert found["model m.onnx"].state == "not checked"
    assert found["later.txt"].state == "not checked"
    assert "nothing vouches for it" in found["later.txt"].text
    if not Path(facts["data"]["address"]).exists():
        assert found["images"].state == "not checked"


def test_parts_that_were_removed_added_or_exchanged(case: Case):
    parts = case.folder / "parts"
    (parts / "part-00001.parquet").rename(parts / "part-00009.parquet")
    removed = failures(checked(case, sources=False))
    first, third = parts / "part-00000.parquet", parts / "part-00002.parquet"
    one, other = first.read_bytes(), third.read_bytes()
    first.write_bytes(other)
    third.write_bytes(one)

    assert {"parts/part-00001.parquet", "parts/part-00009.parquet"} <= set(removed)
    assert {"parts/part-00000.parquet", "parts/part-00002.parquet"} <= set(failures(checked(case, sources=False)))


def test_a_manifest_made_anew_needs_the_hash_of_the_old_one(case: Case):
    """Whoever can write to the folder can seal it again; the hash that was noted shows it."""
    (case.folder / "report.html").write_text("<p>another page</p>")
    write_manifest(case.place)
    loose, anchored = checked(case), checked(case, expected=case.sha256.upper())

    assert loose.failed == ()
    assert "could have made all of them anew" in loose.proves
    assert failures(anchored) == [MANIFEST]


def test_the_expected_hash_anchors_the_manifest(case: Case):
    assert "expected" in checked(case, expected=f"sha256:{case.sha256}").proves


def test_a_manifest_that_contradicts_its_parts(case: Case):
    """Sealed again with another number of images: each statement is compared with the files."""
    document = dict(read_manifest(case.place).document)
    document["parts"] = [{**document["parts"][0], "images": 99}, *document["parts"][1:]]
    document["audit"] = {**document["audit"], "method": "another"}
    document["chain"] = START
    (case.folder / MANIFEST).write_bytes(sealed(document))
    found = {check.what: check.text for check in checked(case, sources=False).failed}

    assert set(found) == {"audit.json", "parts/part-00000.parquet", "chain of parts"}
    assert "method" in found["audit.json"]


def test_the_chain_depends_on_every_part(case: Case):
    document = read_manifest(case.place).document
    link = START
    for part in document["parts"]:
        content = (case.folder / f"parts/part-{part['number']:05}.parquet").read_bytes()
        link = hashlib.sha256(bytes.fromhex(link) + hashlib.sha256(content).digest()).hexdigest()
        assert link == part["link"] == next_link(link, "00") or link == part["link"]

    assert document["chain"] == link
    assert document["images"] == {"count": COUNT, "failed": 1}


def test_the_manifest_says_what_was_asked_of_what(case: Case):
    document = read_manifest(case.place).document
    differences = pyarrow.parquet.read_table(case.folder / "parts")["logits_difference"].to_numpy()

    assert document["audit"]["method"] == "rollout"
    assert document["audit"]["labels"]["count"] == 5
    assert document["audit"]["model"]["files"] == {"m.onnx": hashlib.sha256(case.model.read_bytes()).hexdigest()}
    assert document["logits"]["largest_difference"] == np.nanmax(differences.astype(float))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", document["time"])
    assert "onnxruntime" in document["made_with"]


def test_the_manifest_names_no_machine(case: Case):
    text = (case.folder / MANIFEST).read_text()

    assert str(case.data.parent) not in text
    assert "/tmp" not in text
    assert str(Path.home()) not in text
    assert read_manifest(case.place).document["audit"]["data"]["address"] == "data"


def test_image_hashes_are_those_of_the_files(case: Case):
    rows = read_part(case.place, 0, ["image", "image_sha256"]).to_pylist()

    assert [row["image_sha256"] for row in rows] == [
        hashlib.sha256((case.data / row["image"]).read_bytes()).hexdigest() for row in rows
    ]


def test_privacy_keeps_hashes_and_no_names(tmp_path: Path):
    case = audited(tmp_path, privacy=True)
    flip(case.data / "07.png", 8)
    found = failures(checked(case))

    assert len(found) == 1
    assert found[0].startswith("image sha256:")
    assert b"07.png" not in b"".join(path.read_bytes() for path in case.folder.rglob("*") if path.is_file())


def test_no_manifest_is_an_input_error(case: Case):
    (case.folder / MANIFEST).unlink()
    with pytest.raises(InputError, match=r"manifest\.json"):
        checked(case)


def test_the_data_of_another_audit(case: Case, tmp_path: Path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")

    assert "images" in failures(verify(Verification(case.place, data=str(tmp_path))))
