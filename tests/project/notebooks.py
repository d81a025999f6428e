"""Runs the notebooks of docs/notebooks: `python -m tests.project.notebooks` writes them anew with their outputs."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

FOLDER = Path(__file__).parent.parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 300  # for one cell, on a busy machine
WIDTH = 1000  # pixels, of pictures that are kept


def executed(path: Path) -> Any:
    """The notebook with fresh outputs, run in an empty folder; its first failing cell is the error."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as place:
        settings = os.environ | {"GRADSKIP_CACHE": "off", "PYTHONWARNINGS": "ignore"}
        client = NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": place}})
        client.execute(env=settings)
    return notebook


def tidy(notebook: Any) -> Any:
    """Without times, and with small pictures; lines that were printed one by one are one output."""
    for cell in notebook.cells:
        cell.metadata.clear()
        if streams := [output for output in cell.get("outputs", []) if output.output_type == "stream"]:
            streams[0]["text"] = "".join(output["text"] for output in streams)
            cell["outputs"] = [output for output in cell["outputs"] if output not in streams[1:]]
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                plain = {"text/plain": output["data"]["text/plain"]} if "text/plain" in output["data"] else {}
                output["data"] = {"image/jpeg": small(output["data"]["image/png"]), **plain}
    return notebook


def small(encoded: str) -> str:
    """A picture as JPEG, with no more pixels than a page shows: a tenth of the bytes."""
    picture = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
    picture.thumbnail((WIDTH, 4 * WIDTH), Image.Resampling.LANCZOS)
    picture.save(file := io.BytesIO(), "JPEG", quality=88, optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def main() -> None:
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(tidy(executed(path)), path)
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
