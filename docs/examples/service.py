"""A service that explains pictures: `MODEL=model.onnx uvicorn service:app`, then POST a picture to /explain."""

from __future__ import annotations

import io
import os
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from PIL import Image

import gradskip_onnx

MOST_BYTES = 20_000_000  # of a picture
app = FastAPI(title="gradskip-onnx")
explainer = gradskip_onnx.load(os.environ["MODEL"])  # opened once, shared by all requests


async def picture(request: Request) -> bytes:
    """The body, read no further than it may be long."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MOST_BYTES:
            raise HTTPException(413, f"at most {MOST_BYTES:,} bytes")
    return data


@app.get("/model")
def model() -> dict[str, Any]:
    return {"name": explainer.name, "sha256": explainer.sha256, "classes": explainer.architecture.classes}


@app.post("/explain")  # `def`, not `async def`: runs in a thread, and other requests go on
def explain(
    data: Annotated[bytes, Depends(picture)], target: str | None = None, method: str = "gradskip+", png: bool = False
) -> Any:
    """The likeliest classes and the relevance of each patch; with png=true a grey picture, bright where relevant."""
    try:
        found = explainer.explain(data, target, method=method)
    except gradskip_onnx.GradskipError as error:  # one line that says what is wrong and what to try
        raise HTTPException(422, str(error)) from None
    if png:
        grey = np.clip(255 * found.map / (found.map.max() or 1), 0, 255).astype(np.uint8)
        Image.fromarray(grey).save(drawn := io.BytesIO(), "PNG")
        return Response(drawn.getvalue(), media_type="image/png")
    top = [{"class": one.index, "label": one.label, "probability": one.probability} for one in found.top]
    return {"explained": found.target.index, "top": top, "relevance": found.relevance.scores.tolist()}
