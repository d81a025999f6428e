"""What the folder of an evaluation is about: noted before anything is measured, so that no other is mixed into it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_json
from gradskip_onnx.output.atomic import write_whole, writing
from gradskip_onnx.output.json_text import encode_json

from .evaluation import Evaluation, preparation

NAME = "evaluation.json"
FORMAT = 1
SETTINGS = ("target", "score", "preprocess")  # other methods, metrics and more images of the data are welcome


def claim(evaluation: Evaluation, folder: Path, *, force: bool = False) -> None:
    """Note what the folder is about; raises InputError if it is about something else, unless `force`d."""
    path, ours = folder / NAME, subject(evaluation)
    if path.exists() and not force:
        reason = difference(_read(path), ours, evaluation)
        if reason:
            raise InputError(
                f"output {folder} holds another evaluation: {reason}; name another --output, or --force to replace its "
                "table and page"
            )
        return
    with writing(path):
        write_whole(path, encode_json(ours))


def subject(evaluation: Evaluation) -> dict[str, Any]:
    """Everything that gives all results of a folder their meaning."""
    explainer, dataset = evaluation.explainer, evaluation.dataset
    first = dataset.entries[0]
    return {
        "format": FORMAT,
        "model": {"file": explainer.name, "sha256": explainer.sha256},
        "data": {"where": _where(dataset.where), "image": first.id, "digest": first.digest()},
        "target": evaluation.target,
        "score": evaluation.score,
        "preprocess": preparation(explainer.preprocess),
    }


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any], evaluation: Evaluation) -> str:
    """Where two subjects differ, both named; nothing if they do not."""
    if theirs["model"]["sha256"] != ours["model"]["sha256"]:
        return f"of model {_model(theirs)}, this one is of {_model(ours)}"
    if theirs["data"]["where"] != ours["data"]["where"] and not _moved(theirs["data"], evaluation):
        return f"on data {theirs['data']['where']}, this one is on {ours['data']['where']}"
    name = next((name for name in SETTINGS if theirs[name] != ours[name]), None)
    return "" if name is None else f"with {name} {_short(theirs[name])}, this one is with {_short(ours[name])}"


def _read(path: Path) -> Mapping[str, Any]:
    document = read_json(path)
    fields = ("model", "data", *SETTINGS)
    if not isinstance(document, dict) or document.get("format") != FORMAT or not set(fields) <= set(document):
        raise InputError(f"{path} is not of this program, or of another version; move it away")
    return document


def _moved(theirs: Mapping[str, Any], evaluation: Evaluation) -> bool:
    """Whether the noted image is among ours: the same data, in another place."""
    same = (entry for entry in evaluation.dataset.entries if entry.id == theirs["image"])
    return any(entry.digest() == theirs["digest"] for entry in same)


def _where(where: str) -> str:
    """A path without its spelling; scenes that are drawn are one set of data, however many are taken."""
    return "planted" if where.partition(":")[0] == "planted" else os.path.realpath(where)


def _model(about: Mapping[str, Any]) -> str:
    return f"{about['model']['file']} ({about['model']['sha256'][:12]})"


def _short(value: object) -> str:
    return str(value) if isinstance(value, str) else encode_json(value, indent=None).decode().strip()
