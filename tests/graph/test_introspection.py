"""The same transformer in many spellings: what is read off must be what was written, and proven."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnxruntime
import pytest

from gradskip_onnx.errors import ModelError, UnsupportedModelError
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.find import patterns
from gradskip_onnx.graph.prove.partial_model import partial_model
from gradskip_onnx.graph.read.load import load
from tests.support.models import Vit, cnn, text_model, vit

SPELLINGS = {
    "plain": Vit(),
    "wide picture": Vit(size=(16, 48)),
    "tall picture": Vit(size=(48, 16), depth=3),
    "distilled": Vit(special=2),
    "registers": Vit(special=5),
    "special tokens last": Vit(special=2, special_last=True),
    "no special token": Vit(special=0),
    "mean over tokens": Vit(pooled=True),
    "decomposed norm, opset 13": Vit(decomposed_norm=True, opset=13),
    "tanh gelu": Vit(tanh_gelu=True),
    "heads folded into the batch": Vit(folded_heads=True),
    "values times attention": Vit(swapped_product=True),
    "folded and swapped": Vit(folded_heads=True, swapped_product=True),
    "channels last": Vit(channels_last=True),
    "layer scale": Vit(scaled_branch=True),
    "mask and guard": Vit(masked=True),
    "softmax at the end": Vit(probabilities=True),
    "one channel": Vit(channels=1),
    "fixed batch of one": Vit(batch=1),
    "fixed batch of two": Vit(batch=2),
    "norm after the add": Vit(post_norm=True),
    "as many tokens as channels": Vit(size=(24, 32), width=12, special=0),
}


def reading(model: onnx.ModelProto, **options):
    return read(load(model.SerializeToString()), **options)


@pytest.mark.parametrize("shape", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_reads_what_was_written(shape: Vit):
    """Blocks, heads, grid, special tokens, task and classes, whatever the spelling."""
    found = reading(vit(shape)).architecture
    rows, columns = shape.size[0] // shape.patch, shape.size[1] // shape.patch
    count = rows * columns + shape.special
    places = range(count - shape.special, count) if shape.special_last else range(shape.special)

    assert found.task == "classification"
    assert found.classes == shape.classes
    assert found.input_dims == (shape.channels, *shape.size)
    assert [block.grid for block in found.blocks] == [(rows, columns)] * shape.depth
    assert {block.heads for block in found.blocks} == {shape.heads}
    assert {block.special for block in found.blocks} == {tuple(places)}
    assert {block.stage for block in found.blocks} == {0}
    assert all(
        after.tokens_in == block.tokens_out for block, after in zip(found.blocks, found.blocks[1:], strict=False)
    )
    assert found.proofs
    assert all(proof.holds for proof in found.proofs)


def test_block_outputs_are_the_stream():
    """The output of a block is the tensor its last residual add writes, seen in the model itself."""
    model = vit(Vit(depth=2, special=1))
    found = reading(model).architecture
    adds = [n for n in model.graph.node if n.op_type == "Add"]
    stream = [n.output[0] for n in adds if all(not name.startswith("c") for name in n.input)]

    assert [found.blocks[0].tokens_in, *(b.tokens_out for b in found.blocks)] == [
        next(n.output[0] for n in adds if n.output[0] == found.blocks[0].tokens_in),
        stream[1],
        stream[3],
    ]


def test_softmax_head_is_looked_through():
    """Scores are taken before the final softmax, so that gradients are those of logits."""
    model = vit(Vit(probabilities=True))
    found = reading(model).architecture
    (maker,) = [n for n in model.graph.node if found.logits in n.output]

    assert maker.op_type == "Gemm"


REFUSALS = {
    "cnn": (cnn, "no-attention"),
    "text": (text_model, "no-image-input"),
}


@pytest.mark.parametrize(("build", "code"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refuses_with_a_reason(build, code: str):
    with pytest.raises(UnsupportedModelError) as refusal:
        reading(build())
    assert refusal.value.code == code


def test_a_block_that_is_not_understood_is_no_gap(monkeypatch: pytest.MonkeyPatch):
    """Where a softmax between blocks is not taken for an attention, the others alone would make a map of a part."""
    monkeypatch.setattr(patterns, "MOST_HOPS", 0)
    model = vit(Vit(depth=2))
    first = next(node for node in model.graph.node if node.op_type == "Softmax")
    scale = next(node for node in model.graph.node if first.input[0] in node.output)
    later = [node for node in model.graph.node if node.op_type == "Softmax"][1]
    product = next(node for node in model.graph.node if later.input[0] in node.output)
    later.input[0] = product.input[0]  # nothing stands between the scores of the second block and its softmax
    with pytest.raises(UnsupportedModelError, match=first.name) as refusal:
        reading(model)
    assert scale.op_type == "Mul"
    assert refusal.value.code == "no-score-product"


def test_old_files_are_converted_and_the_conversion_is_proven():
    """A file of opset 12 is read as what it is, beside the file that was given."""
    model = vit(Vit(decomposed_norm=True, opset=13))
    model.opset_import[0].version = 12  # nothing in this graph changed between the two
    found = reading(model).architecture
    (proof,) = [proof for proof in found.proofs if proof.claim == "a converted file gives what the given one gave"]

    assert len(found.blocks) == 2
    assert proof.holds


def test_unknown_operators_are_refused_as_onnx_runtime_refuses_them():
    model = vit(Vit(decomposed_norm=True, opset=13))
    model.opset_import[0].version = 12
    model.graph.node[3].op_type = "Frobnicate"
    with pytest.raises(UnsupportedModelError, match=r"Frobnicate.*unknown-operator"):
        reading(model)


def test_turned_views_are_lent_as_what_they_hold():
    """Some constants are views in which rows are columns; ONNX Runtime is handed memory, not views."""
    weight = np.random.default_rng(0).standard_normal((40, 60)).astype(np.float32).T
    x, y = gs.Variable("x", np.float32, [2, 60]), gs.Variable("y", np.float32)
    node = gs.Node("MatMul", "product", inputs=[x, gs.Constant("w", weight)], outputs=[y])
    given = np.eye(2, 60, dtype=np.float32)
    found = partial_model(gs.Graph([node], [x], [y], opset=17, ir_version=8), None)

    assert set(found.weights) == {"w"}
    np.testing.assert_array_equal(found.open(["y"]).run(["y"], {"x": given})["y"], weight[:2])


def test_nan_weights_are_named():
    model = vit()
    tensor = model.graph.initializer[0]
    broken = onnx.numpy_helper.to_array(tensor).copy()
    broken.flat[0] = np.nan
    tensor.CopyFrom(onnx.numpy_helper.from_array(broken, tensor.name))
    with pytest.raises(ModelError, match=tensor.name):
        reading(model)


def test_shuffled_tokens_are_refused():
    """Where tokens do not lie row by row, a map would be scrambled: the proof must fail."""
    model = vit(Vit(special=0))
    count = 16
    order = np.random.default_rng(3).permutation(count)
    position = next(i for i, n in enumerate(model.graph.node) if n.op_type == "Add")
    node = model.graph.node[position]
    shuffle = onnx.helper.make_node("Gather", [node.input[0], "order"], ["shuffled"], axis=1)
    node.input[0] = "shuffled"
    model.graph.node.insert(position, shuffle)
    model.graph.initializer.append(onnx.numpy_helper.from_array(order, "order"))
    with pytest.raises(UnsupportedModelError) as refusal:
        reading(model)
    assert refusal.value.code in {"no-grid", "proof-failed"}


def test_names_mean_nothing():
    """Renaming every tensor and node changes nothing but the names."""
    model = vit(Vit(depth=2))
    renamed = onnx.ModelProto()
    renamed.CopyFrom(model)
    names: dict[str, str] = {}
    for node in renamed.graph.node:
        node.name = ""
        for side in (node.input, node.output):
            for i, name in enumerate(side):
                if name not in {"image", "logits"}:
                    side[i] = names.setdefault(name, f"x{len(names)}")
    for tensor in renamed.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    before, after = reading(model).architecture, reading(renamed).architecture

    assert [names[b.attention] for b in before.blocks] == [b.attention for b in after.blocks]
    assert [names[b.tokens_out] for b in before.blocks] == [b.tokens_out for b in after.blocks]


def test_open_image_size_is_found_or_given():
    """Where the file leaves height and width open, a size that runs is found, and a given one is used."""
    model = vit(Vit(size=(32, 32)))
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"side{axis}"

    assert reading(model).architecture.input_dims == (3, 32, 32)
    assert reading(model, size=(32, 32)).architecture.input_dims == (3, 32, 32)
    with pytest.raises(UnsupportedModelError) as refusal:
        reading(model, size=(40, 40))
    assert refusal.value.code == "does-not-run"


def test_caller_keeps_the_model():
    """Reading edits a copy: the file given runs and serialises as before."""
    model = vit()
    source = load(model.SerializeToString())
    before = source.model.SerializeToString()
    read(source)

    assert source.model.SerializeToString() == before
    assert onnxruntime.InferenceSession(before).get_inputs()[0].name == "image"


def round_operands(model: onnx.ModelProto, names: set[str], ops: set[str]) -> None:
    """Quantise and dequantise the tensors named, for the readers of some kinds alone."""
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0.05, np.float32), "step"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(128, np.uint8), "centre"))
    pairs = []
    for place, node in enumerate(model.graph.node):
        for position, name in enumerate(node.input):
            if name in names and node.op_type in ops:
                pairs.append((place, name))
                node.input[position] = f"{name}/{place}/back"
    for place, name in reversed(pairs):
        there, back = f"{name}/{place}/there", f"{name}/{place}/back"
        model.graph.node.insert(place, onnx.helper.make_node("DequantizeLinear", [there, "step", "centre"], [back]))
        model.graph.node.insert(place, onnx.helper.make_node("QuantizeLinear", [name, "step", "centre"], [there]))


@pytest.mark.parametrize("ops", [{"Add"}, {"LayerNormalization"}, {"Add", "LayerNormalization"}])
def test_a_stream_that_is_rounded_on_one_way_is_still_the_stream(ops):
    """Quantisers round what enters some operators: the skip, the branch, or each on its own."""
    model = vit(Vit(depth=3))
    plain = reading(model).architecture.blocks
    round_operands(model, {block.tokens_in for block in plain}, ops)
    found = reading(model).architecture

    assert [b.attention for b in found.blocks] == [b.attention for b in plain]
    assert not found.unmatched
    assert [b.tokens_in for b in found.blocks] == [b.tokens_in for b in plain]


def test_a_lost_block_is_refused():
    """Without its residual add an attention in the middle is no block, and a map of the others would be wrong."""
    model = vit(Vit(depth=3))
    middle = reading(model).architecture.blocks[1]
    (add,) = [n for n in model.graph.node if n.op_type == "Add" and set(n.input) == {middle.tokens_in, middle.branch}]
    add.op_type, add.input[:] = "Identity", [middle.branch]
    with pytest.raises(UnsupportedModelError) as refusal:
        reading(model)
    assert refusal.value.code == "no-residual"


def test_scales_found_from_all_tokens_do_not_blur_what_is_measured(tmp_path):
    """Dynamic quantisation lets every token move with every other, by rounding; the bound is that of float files."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = tmp_path / "dynamic.onnx"
    quantize_dynamic(vit(Vit(depth=2)), path, weight_type=QuantType.QUInt8)
    found = read(load(path)).architecture
    leaks = [proof for proof in found.proofs if proof.claim == "a token moves its own query and key alone"]

    assert len(leaks) == 2
    assert {proof.bound for proof in leaks} == {1e-3}


def test_a_rank_that_changes_with_the_batch_makes_a_file_one_for_single_images():
    """A Squeeze without axes drops the axis of the images if there is one, and keeps it if there are two."""
    model = vit()
    gather = [node for node in model.graph.node if node.op_type == "Gather"][-1]
    squeeze = onnx.helper.make_node("Squeeze", [gather.output[0]], ["squeezed"])
    shape = onnx.numpy_helper.from_array(np.array([-1, 12]), "back")
    again = onnx.helper.make_node("Reshape", ["squeezed", "back"], ["unsqueezed"])
    at = 1 + list(model.graph.node).index(gather)
    for node in list(model.graph.node)[at:]:
        node.input[:] = ["unsqueezed" if name == gather.output[0] else name for name in node.input]
    nodes = [*list(model.graph.node)[:at], squeeze, again, *list(model.graph.node)[at:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(shape)
    reading = read(load(model.SerializeToString()))

    (note,) = [note for note in reading.architecture.assumptions if "squeezed" in note]
    assert reading.facts[reading.architecture.input].dims[0] == 1
    assert "is of shape (12,) for one image, (2, 12) for two" in note
