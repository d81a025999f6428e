"""An audit whose names of images and classes try to run, to redirect and to hide."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.findings.find import find
from gradskip_onnx.findings.found import Findings
from gradskip_onnx.findings.violations import Violation
from gradskip_onnx.report.content import OpenImage
from tests.support.audit_data import failed_row, good_row, write_audit

RUN = "window.hacked=1"
NAMES = (
    f"</script><script>{RUN}</script>",
    f'"><img src=x onerror={RUN}>',
    f"' autofocus onfocus={RUN} '",
    f"javascript:{RUN}",
    "{{ 7 * 7 }}{% raw %}",
    "photo\u202egnp.exe",
    "\x1b[2J\x1b]0;owned\x07",
    "a\u200bb\u2066c\u2069",
    f"<svg onload={RUN}>",
    f"![x](http://example.invalid/x.png) [y](javascript:{RUN}) | `z`",
    "\n# heading\n",
    "=cmd|' /C calc'!A0",
)
LABELS = ("cat", *NAMES[:6])


def rows(count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    made = [good_row(at, len(LABELS), rng) for at in range(count)]
    made = [replace(row, image=f"{NAMES[row.position % len(NAMES)]}-{row.position}") for row in made]
    made[5] = replace(made[5], check_passed=False, check_erased=0.9, abstained=f"reason {NAMES[1]}")
    made[3] = failed_row(3, NAMES[0], f"error {NAMES[0]}")
    return made


def hostile_audit(folder: Path, count: int = 84, **changed: Any) -> Audit:
    data = {"address": f"photos {NAMES[8]}", "layout": "folder", "count": count, "list_sha256": "b" * 64}
    return write_audit(folder, rows=rows(count), labels=LABELS, data=data, method=f"gradskip {NAMES[0]}", **changed)


def found(audit: Audit) -> Findings:
    return find(audit, resamples=50)


VIOLATIONS = (Violation(NAMES[0], "border", None, 0.5, 0.4, 0.6, 0.3, f"border {NAMES[0]} is too high"),)


def open_noise(name: str) -> Image.Image:
    """Noise, the largest picture a codec makes of so many pixels."""
    rng = np.random.default_rng(len(name))
    return Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8))


OPEN: OpenImage = open_noise
