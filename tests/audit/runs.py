"""The settings of the audit that tests share, and its rows."""

from __future__ import annotations

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.audit.regions import read_regions
from gradskip_onnx.audit.settings import AuditSettings, CheckSettings
from gradskip_onnx.methods import choose_method

COUNT = 20
SETTINGS = AuditSettings(
    method=choose_method("grad-cam"), batch_size=4, part_size=8, check=CheckSettings(draws=2),
    regions=read_regions(("logo=corner:top-left:0.25",)),
)  # fmt: skip


def rows_of(audit: Audit) -> list[dict[str, object]]:
    """All rows with their maps, without the time they took."""
    table = audit.table.drop_columns(["seconds"]).to_pylist()
    maps = {at: audit.map(at).tobytes() for at in audit.explained}
    return [{**row, "map": maps.get(row["position"])} for row in table]
