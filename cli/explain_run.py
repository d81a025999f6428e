"""Runs `explain`: one image, or many with a record of what is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradskip_onnx.api import Explainer
from gradskip_onnx.explanation.files import FileSettings
from gradskip_onnx.model_file.opening import ModelFile
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.pipeline.explain_jobs import check, explain_jobs, write_jobs
from gradskip_onnx.pipeline.jobs import Job
from gradskip_onnx.pipeline.lanes import in_lanes
from gradskip_onnx.pipeline.question import ExplainRequest
from gradskip_onnx.pipeline.run_record import RunRecord, claim_new, run_record
from gradskip_onnx.tasks import task_of

from .console import Terminal
from .explain_request import load_explainer
from .report import report, report_model, report_options, report_skipped


@dataclass(frozen=True, slots=True)
class Run:
    """What the words typed mean; names of files are claimed before anything slow begins."""

    terminal: Terminal
    file: ModelFile | Path
    jobs: Sequence[Job]
    request: ExplainRequest
    settings: FileSettings
    folder: Folder
    flags: Mapping[str, Any]

    def explain(self, several: bool) -> int:
        """Explain all images and return how many failed; `several`, also one of a folder, have a record."""
        named = () if self.request.likeliest else self.jobs  # names of classes are known when the model has spoken
        if several:
            claim_new(self.folder, named)
        else:
            self.folder.claim(job.stem for job in named)
        explainer = self._load()
        if not several:
            return self._explain(explainer, self.jobs, None)
        with run_record(self.folder) as record:
            return self._explain_pending(explainer, record)

    def _explain_pending(self, explainer: Explainer, record: RunRecord) -> int:
        """Skip what is done, explain the rest, and write the overview of all."""
        todo = record.pending(self.jobs, explainer, self.request, self.settings)
        left = {job.stem for job in todo}
        report_skipped(self.terminal, [record.last[job.stem] for job in self.jobs if job.stem not in left])
        failures = self._explain(explainer, todo, record)
        record.write_overview(f"{explainer.name}: {explainer.settled(self.request.question.method).label}")
        self.terminal.print(f"overview  {self.folder.path / 'index.html'}", style="bold")
        return failures

    def _load(self) -> Explainer:
        explainer = load_explainer(self.file, self.flags, len(self.jobs), fitted=True)
        check(explainer, self.request)
        report_model(self.terminal, explainer)
        settled, built = explainer.settled(self.request.question.method), explainer.model.facts.metadata.built
        report_options(self.terminal, settled, built)
        return explainer

    def _explain(self, explainer: Explainer, jobs: Sequence[Job], record: RunRecord | None) -> int:
        failures, alone = 0, len(self.jobs) == 1
        share = task_of(explainer.architecture).share
        explainer, lanes = in_lanes(explainer, len(jobs), self.request.batch_size, self.flags["threads"])
        with self.terminal.progress(len(jobs), self.request.passes) as bar:
            explained = explain_jobs(explainer, jobs, self.request, bar.further, lanes)
            for outcome in write_jobs(explained, self.request, self.folder, self.settings, record, lanes):
                if alone:
                    outcome.result()  # raises the error of the only image
                failures += outcome.error is not None
                bar(outcome.job.path.name)
                report(self.terminal, outcome, share, alone=alone)
        return failures
