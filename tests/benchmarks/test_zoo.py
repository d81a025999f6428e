"""The zoo: its tables hold what was promised, its checker can tell right from wrong, and its slice is explained.

The slice is built for the occasion, which takes a minute or two on two cores; GRADSKIP_ZOO=FOLDER keeps it there, and
files that are there are not built again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.zoo import check, jobs, page
from benchmarks.zoo.exporters import EXPORTERS
from benchmarks.zoo.families import FAMILIES
from benchmarks.zoo.plan import CI, FILES, chosen
from benchmarks.zoo.post import POSTS

ROOT = Path(__file__).parent.parent.parent
BUILDERS = ("torch", "torchvision", "timm", "transformers", "onnxscript", "onnxslim", "sympy")
BOUND = "-ort_all"  # written for the machine at hand

PROMISED_FAMILIES = {
    "timm ViT plain", "timm ViT GAP", "timm ViT registers", "timm ViT qk-norm", "timm ViT LayerScale",
    "timm ViT attention-pool head", "timm ViT no CLS", "DeiT", "DeiT-distilled", "DeiT-3", "BEiT", "EVA-02", "CLIP",
    "SigLIP", "DINOv2", "DINOv3", "Swin", "Swin-v2", "PVTv2", "SegFormer", "CCT", "torchvision ViT",
    "transformers ViT", "transformers DeiT", "transformers DINOv2", "transformers BEiT", "transformers Swin",
    "transformers SegFormer",
}  # fmt: skip
PROCESSED = {"vit", "deit_distilled", "hf_segformer", "swin", "siglip", "hf_clip"}


def test_the_zoo_is_as_large_as_promised():
    assert len(FILES) >= 200
    assert len(CI) >= 60
    assert set(FILES) >= CI


def test_names_are_unique_and_say_what_a_file_is():
    assert all(name == file.name for name, file in FILES.items())
    assert len({name.lower() for name in FILES}) == len(FILES)  # file systems may not tell cases apart
    assert len(FAMILIES) == len({family.name for family in FAMILIES.values()})


def test_every_promised_family_is_there():
    assert {family.issue for family in FAMILIES.values()} == PROMISED_FAMILIES
    assert {file.family for file in FILES.values()} == set(FAMILIES)


def test_every_family_comes_from_both_exporters_and_both_ways_of_attention():
    for family in FAMILIES.values():
        forms = [file.form for file in FILES.values() if file.family == family.name and not file.post]
        assert {"ts", "dynamo"} <= {form.exporter for form in forms}, family.name
        ways = {True, False} if family.fuse else {None}
        assert ways <= {form.fused for form in forms}, family.name


def test_two_families_come_in_every_opset():
    for exporter, row in EXPORTERS.items():
        if exporter == "raw":  # the same graphs before torch's optimiser; two opsets stand for all
            continue
        by_opset = Counter(
            (file.form.opset, file.family)
            for file in FILES.values()
            if file.form.exporter == exporter and not file.post
        )
        for opset in row.opsets:
            assert sum(found == opset for found, _ in by_opset) >= 2, (exporter, opset)


def test_every_post_processing_meets_enough_families():
    for post in POSTS:
        families = {file.family for file in FILES.values() if file.post == post}
        assert families >= PROCESSED, post
        assert any(file.post == post for file in FILES.values() if file.name in CI), post


def test_fixed_batches_come_at_every_level_of_optimisation():
    fixed = [file for file in FILES.values() if not file.form.free_batch]
    for level in (None, "ort_basic", "ort_extended", "ort_all"):
        assert len({file.family for file in fixed if file.post == level}) >= 6
        assert level is None or any(file.post == level for file in fixed if file.name in CI)


def test_old_opsets_are_in_the_slice():
    assert {file.form.opset for file in FILES.values() if file.name in CI} >= set(range(7, 14))


def test_free_sizes_are_there():
    free = [file for file in FILES.values() if file.form.free_size]
    assert len(free) >= 6
    assert all(FAMILIES[file.family].other for file in free)


def test_a_slice_can_be_narrowed():
    assert {file.name for file in chosen("ci")} == CI
    assert {file.family for file in chosen("all", ("swin", "cct"))} == {"swin", "cct"}


def test_each_kind_of_arithmetic_has_bounds():
    assert {file.kind for file in FILES.values()} <= set(check.BOUNDS)
    assert check.BOUNDS["float32"].gradients == 1e-3  # what was asked for


def test_gap_sees_differences_shapes_and_nan():
    one = np.array([[1.0, -4.0]])
    assert check.gap(one, one) == 0.0
    assert check.gap(one + 1.0, one) == 0.25
    assert check.gap(one[:, :1], one) == np.inf
    assert check.gap(one * np.nan, one) == np.inf


def test_reading_the_tables_and_checking_need_no_torch():
    modules = "benchmarks.zoo.check, benchmarks.zoo.page, benchmarks.zoo.__main__"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def half(number: int) -> float:
    if number < 0:
        os._exit(3)  # as a crash inside a library would
    return 1 / number


def test_a_job_that_raises_or_dies_is_a_result_and_the_others_go_on():
    found = dict(jobs.run(half, [2, 0, -1, 4], workers=1))
    assert found[2] == 0.5
    assert found[4] == 0.25
    assert found[0].reason.startswith("ZeroDivisionError")
    assert found[-1].reason == "the process died"


GIVER = """
import os, sys, time
sys.path.append({root!r})
from benchmarks.zoo import jobs

def idle(number):
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    list(jobs.run(idle, [1], workers=1))
"""


def test_workers_end_with_the_process_that_gives_them_jobs(tmp_path):
    script = tmp_path / "giver.py"
    script.write_text(GIVER.format(root=str(ROOT)))
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as giver:
        assert giver.stdout is not None
        worker = int(giver.stdout.readline())
        giver.terminate()
        try:
            giver.communicate(timeout=60)  # returns when the worker, which holds the other end, is gone
        except subprocess.TimeoutExpired:
            os.kill(worker, signal.SIGKILL)
            raise


def test_the_page_shows_outcomes_reasons_and_differences(tmp_path):
    explained = {"outcome": "explained", "code": "", "detail": "", "measured": {"gradients": 3.2e-6}}
    refused = {"outcome": "refused", "code": "token-count", "detail": "16 queries | do not fit", "measured": {}}
    names = ["vit-ts17-plain", "swin-ts17-plain", "vit-dynamo18-plain-slim"]
    results = dict(zip(names, [explained, refused, explained], strict=True))
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"results": results, "not_built": {"beit-ts14-fused": "torch said no"}}))
    text = page.render(report)
    assert "3 files: 2 explained, 1 refused, 0 wrong, 0 crashed. 1 more could not be built." in text
    assert "66.7% are explained; 66.7% of those not bound to one machine (`hardware-specific`)." in text
    assert "| vit | 1/1 3e-06 |" in text
    assert "| swin | 0/1 token-count |" in text
    assert "| slim | 1/1 3e-06 |" in text
    assert "| swin-ts17-plain | refused | token-count | 16 queries / do not fit |" in text
    assert "| beit-ts14-fused | torch said no |" in text


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.zoo
def test_the_slice_is_explained(tmp_path):
    """Each file is explained with the logits of the file and the gradients of torch; the reports hold how far off."""
    for name in BUILDERS:
        pytest.importorskip(name)
    folder, report = os.environ.get("GRADSKIP_ZOO") or str(tmp_path / "files"), tmp_path / "report.json"
    run = [sys.executable, "-m", "benchmarks.zoo"]
    subprocess.run([*run, "build", folder, "--slice", "ci"], cwd=ROOT, check=True)
    subprocess.run([*run, "check", folder, "--slice", "ci", "-o", str(report)], cwd=ROOT, check=True)
    document = json.loads(report.read_text())
    outcomes = {name: (found["outcome"], found["code"]) for name, found in document["results"].items()}
    others = {name: outcome for name, outcome in outcomes.items() if outcome != ("explained", "")}

    assert document["not_built"] == {}
    assert set(outcomes) == CI
    assert {*others.values()} <= {("refused", "hardware-specific")}
    assert all(name.endswith(BOUND) for name in others)  # not all machines have layouts of their own
