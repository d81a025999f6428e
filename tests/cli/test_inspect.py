"""`inspect`: what a graph is, how that was proven, and why not."""

import json
from typing import Any

from gradskip_onnx import api
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.types import Mismatch
from tests.support.command_line import fails, run


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
