"""The table of mutations of models: what makes a row out of a function on a graph, on bytes, or on a folder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from .case import EXPLAIN, IMAGE, MODEL, Mutator, Scene, Trial, pick
from .seeds import MODELS, encoded, model_bytes, picture

Graph = Callable[[onnx.ModelProto, np.random.Generator], str]  # changes the model in place; says what it did
Bytes = Callable[[bytes, np.random.Generator], tuple[bytes, str]]

ROWS: dict[str, Mutator] = {}
DAMAGES: list[Graph] = []  # rows that may be laid over each other
TWICE = 0.25  # share of damaged graphs that are damaged again
INSPECTED = 0.1  # share of damaged models that are inspected instead of explained
SMALL = tuple(name for name in MODELS if name != "demo")  # for rows that make many or large nodes


def whole(name: str) -> Callable[[Mutator], Mutator]:
    """A row that sets its scene itself."""

    def register(make: Mutator) -> Mutator:
        ROWS[name] = make
        return make

    return register


def damage(name: str, *, alone: bool = False, seeds: tuple[str, ...] = tuple(MODELS)) -> Callable[[Graph], Graph]:
    """A row that changes the meaning of a graph; not laid over others if `alone`."""

    def register(change: Graph) -> Graph:
        def make(scene: Scene) -> Trial:
            seed, model = _start(scene, seeds)
            words = [change(model, scene.rng)]
            if not alone and scene.rng.random() < TWICE:
                words.append(_again(model, scene.rng))
            return place(scene, seed, model.SerializeToString(), " + ".join(words))

        ROWS[name] = make
        if not alone:
            DAMAGES.append(change)
        return change

    return register


def keeps(name: str, *, seeds: tuple[str, ...] = tuple(MODELS)) -> Callable[[Graph], Graph]:
    """A row that writes the same function in another way: logits and map must stay."""

    def register(change: Graph) -> Graph:
        def make(scene: Scene) -> Trial:
            seed, model = _start(scene, seeds)
            what = change(model, scene.rng)
            write(scene, model.SerializeToString())
            arguments = (*EXPLAIN, "--no-cache", *_task(seed, model))
            return Trial(f"{seed}: {what}", arguments, MODEL, "same", scene.seed_answer(seed))

        ROWS[name] = make
        return change

    return register


def scrambles(name: str) -> Callable[[Bytes], Bytes]:
    """A row that changes the bytes of a file."""

    def register(change: Bytes) -> Bytes:
        def make(scene: Scene) -> Trial:
            seed = pick(scene.rng, tuple(MODELS))
            data, what = change(model_bytes(seed), scene.rng)
            return place(scene, seed, data, what)

        ROWS[name] = make
        return change

    return register


def write(scene: Scene, data: bytes) -> None:
    """The model and a picture, in the folder of the case."""
    (scene.folder / MODEL).write_bytes(data)
    (scene.folder / IMAGE).write_bytes(encoded(picture()))


def place(scene: Scene, seed: str, data: bytes, what: str) -> Trial:
    """The trial of a damaged model; if it is explained, its hash must not be that of the model it was made from."""
    write(scene, data)
    what = f"{seed}: {what}"
    if scene.rng.random() < INSPECTED:
        return Trial(what, ("inspect", MODEL, "--json"))
    same = data == model_bytes(seed)
    return Trial(what, (*EXPLAIN, "--no-cache"), MODEL, "any" if same else "changed", scene.seed_answer(seed))


def _start(scene: Scene, seeds: tuple[str, ...]) -> tuple[str, onnx.ModelProto]:
    seed = pick(scene.rng, seeds)
    return seed, onnx.ModelProto.FromString(model_bytes(seed))


def _task(seed: str, model: onnx.ModelProto) -> tuple[str, ...]:
    """What is asked for where an output of rank 4 is not called `logits` any more: it may hold features as well."""
    unknown = seed == "segmenter" and model.graph.output[0].name != "logits"
    return ("--task", "segmentation") if unknown else ()


def _again(model: onnx.ModelProto, rng: np.random.Generator) -> str:
    try:
        return pick(rng, DAMAGES)(model, rng)
    except (IndexError, ValueError) as unfit:  # the first damage left nothing for the second
        return f"nothing more ({unfit})"
