"""Rows of large tensors looked at alone: the numbers of the whole, nothing large computed, faults still found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.demo import demo_model
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.find import block_proofs
from gradskip_onnx.graph.prove import block_values, chosen_rows
from gradskip_onnx.graph.prove.chosen_rows import ROWS, with_rows
from gradskip_onnx.graph.prove.dry_run import make_dry_run
from gradskip_onnx.graph.prove.partial_model import partial_model
from gradskip_onnx.graph.prove.probes import open_cut_model
from gradskip_onnx.graph.read.forward import forward_graph
from gradskip_onnx.graph.read.image_input import find_image_input
from gradskip_onnx.types import Architecture, Array
from tests.graph.test_rounded_attention import rounded_attention
from tests.support.models import Vit, vit

FIXTURES = Path(__file__).parent.parent / "fixtures"
MODELS: dict[str, Callable[[], bytes]] = {
    "demo": lambda: Path(demo_model()).read_bytes(),
    "distilled": lambda: (FIXTURES / "deit_distilled.onnx").read_bytes(),
    "segformer": lambda: (FIXTURES / "segformer.onnx").read_bytes(),
    "plain": lambda: vit().SerializeToString(),
    "norm written out": lambda: vit(Vit(decomposed_norm=True)).SerializeToString(),
    "folded heads": lambda: vit(Vit(folded_heads=True)).SerializeToString(),
    "swapped product": lambda: vit(Vit(swapped_product=True)).SerializeToString(),
    "channels last": lambda: vit(Vit(channels_last=True)).SerializeToString(),
    "masked": lambda: vit(Vit(masked=True, scaled_branch=True)).SerializeToString(),
    "opset 12": lambda: vit(Vit(opset=12, decomposed_norm=True)).SerializeToString(),
    "rounded": lambda: rounded_attention().SerializeToString(),
}


def by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of a small model count as large, too."""
    monkeypatch.setattr(block_values, "MOST_ENTRIES", 16)
    monkeypatch.setattr(block_values, "SOME_ENTRIES", 16)
    monkeypatch.setattr(block_values, "LEAST_ROWS", 5)
    monkeypatch.setattr(chosen_rows, "MOST_ENTRIES", 16)


@pytest.mark.parametrize("model", MODELS)
def test_chosen_rows_are_those_of_the_whole_tensor(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every tensor of the graph that has enough rows."""
    by_rows(monkeypatch)
    graph = forward_graph(onnx.load_from_string(MODELS[model]()))
    image = find_image_input(graph)
    whole = partial_model(graph, None)
    names = [tensor.name for node in graph.nodes for tensor in node.outputs]
    run = make_dry_run(whole, image, names)
    numbers = np.array([0, 2, 3])
    wanted = [name for name in names if len(run.shapes[name]) > 2 and run.shapes[name][-2] > 3]

    chosen, read_as = with_rows(whole, dict.fromkeys(wanted, numbers), run.shapes, [])
    found = open_cut_model(chosen, [], list(read_as.values()), run.values).run(list(read_as.values()), {})

    assert len(wanted) > 10
    for name in wanted:
        expected = run.values[name].take(numbers, axis=-2).astype(np.float64)
        assert np.abs(found[read_as[name]] - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("model", ["demo", "plain", "masked", "segformer"])
def test_no_attention_is_computed_whole(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_rows(monkeypatch)
    opened: list[tuple[Any, list[str]]] = []

    def watching(whole: Any, cuts: Any, outputs: list[str], values: Any) -> Any:
        cut_model = open_cut_model(whole, cuts, outputs, values)
        opened.append((whole, outputs))
        return cut_model

    monkeypatch.setattr(block_proofs, "open_cut_model", watching)
    architecture = gradskip_onnx.inspect(MODELS[model]())

    large = {block.attention for block in architecture.blocks if block.grid.patches > 4}
    assert large
    for whole, outputs in opened:
        assert any(name.startswith(ROWS) for name in outputs)
        assert large.isdisjoint(_computed(whole.nodes, outputs, architecture))


def _computed(nodes: list[onnx.NodeProto], outputs: list[str], architecture: Architecture) -> set[str]:
    """The tensors that `outputs` take, if inputs of blocks and what residual adds give are known."""
    known = {name for block in architecture.blocks for name in (block.tokens_in, block.tokens_out)}
    known |= {node.output[0] for node in nodes if node.op_type == "Add" and not node.output[0].startswith(ROWS)}
    wanted, found = set(outputs), set[str]()
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            found.update(node.output)
            wanted.update(name for name in node.input if name not in known)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_a_file_read_by_rows_is_the_same_model(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gradskip_onnx.inspect(MODELS[model]())
    by_rows(monkeypatch)
    found = gradskip_onnx.inspect(MODELS[model]())

    assert found.blocks == whole.blocks
    assert [(proof.claim, proof.where) for proof in found.proofs] == [
        (proof.claim, proof.where) for proof in whole.proofs
    ]


def shifted_attention(row: int) -> bytes:
    """A file that adds to one row of each attention on its way to the values."""
    model = vit(Vit())
    bump = np.zeros((1, 1, 17, 17), np.float32)
    bump[..., row, :] = 0.01
    model.graph.initializer.append(onnx.numpy_helper.from_array(bump, "bump"))
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type == "Softmax":
            whole, node.output[0] = node.output[0], f"{node.output[0]}_exact"
            nodes.append(onnx.helper.make_node("Add", [node.output[0], "bump"], [whole], name=f"{whole}_add"))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("row", [0, 16])  # the first and the last are among the chosen
def test_a_changed_row_is_found(row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    by_rows(monkeypatch)
    with pytest.raises(UnsupportedModelError, match="attention reaches the values unchanged") as refusal:
        gradskip_onnx.inspect(shifted_attention(row))
    assert refusal.value.code == "proof-failed"


@pytest.mark.parametrize(("largest", "factor"), [(0.5, 0.97), (1.0, 1.02), (0.03, 1.0)])
def test_faults_of_a_rounded_attention_are_found(
    largest: float, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_rows(monkeypatch)
    with pytest.raises(UnsupportedModelError) as refusal:
        gradskip_onnx.inspect(rounded_attention(largest, factor).SerializeToString())
    assert refusal.value.code == "proof-failed"


def test_rows_of_small_tensors_are_picked() -> None:
    """Nothing is moved where nothing is large."""
    graph = forward_graph(vit())
    whole = partial_model(graph, None)
    run = make_dry_run(whole, find_image_input(graph))
    softmax = next(node.outputs[0].name for node in graph.nodes if node.op == "Softmax")

    chosen, read_as = with_rows(whole, {softmax: np.array([1])}, run.shapes, [])

    (added,) = chosen.nodes[len(whole.nodes) :]
    assert (added.op_type, list(added.output)) == ("Gather", [read_as[softmax]])


def test_all_rows_are_the_tensor_itself() -> None:
    graph = forward_graph(vit())
    whole = partial_model(graph, None)
    rows: dict[str, Array | None] = {"anything": None}

    chosen, read_as = with_rows(whole, rows, {}, [])

    assert (list(chosen.nodes), read_as) == (list(whole.nodes), {"anything": "anything"})
