"""Audits that lose a process: the whole run, killed and started again, or a worker of Ray."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from gradskip_onnx.audit.parts import finished_parts, read_part
from gradskip_onnx.audit.reading import Audit, read_audit

MARKS = 10  # times that memory is looked at
PAUSE = 0.2  # seconds between two looks at a running process


def kill_and_resume(folder: Path, model: Path, images: int, kills: int, seed: int) -> None:
    """Print the memory of an undisturbed audit, where it was killed, and whether both are the same."""
    whole = undisturbed(folder, model, images)
    rng, parts = random.Random(seed), -(-whole.images // whole.part_size)
    moments = sorted(rng.uniform(0, parts * 0.95) for _ in range(kills))
    target = folder / "killed"
    for moment in moments:
        run = start(model, images, target)
        while run.poll() is None and done(target) + 1 <= moment:
            time.sleep(PAUSE)
        time.sleep(rng.uniform(0, 1.0))  # somewhere inside a part
        ended = run.poll() is not None
        run.send_signal(signal.SIGKILL)
        run.wait()
        click.echo(f"killed with {done(target)} of {parts} parts written{' (it had ended)' if ended else ''}")
    finish(start(model, images, target))
    say_same(whole, read_audit(target))


def lose_a_ray_worker(folder: Path, model: Path, images: int) -> None:
    """Print whether an audit through Ray that lost an actor is the same as an undisturbed one."""
    whole = undisturbed(folder, model, images)
    parts = -(-whole.images // whole.part_size)
    target = folder / "ray"
    run, lost = start(model, images, target, "--engine", "ray", "--workers", "2"), None
    while run.poll() is None and lost is None:
        time.sleep(PAUSE)
        if parts * 0.3 <= done(target):
            lost = next(actors(run.pid), None)
    if lost is not None:
        os.kill(lost, signal.SIGKILL)
        click.echo(f"killed actor {lost} with {done(target)} of {parts} parts written")
    else:
        click.echo("no actor was there to be killed")
    finish(run)
    say_same(whole, read_audit(target))


def undisturbed(folder: Path, model: Path, images: int) -> Audit:
    """The audit FOLDER/whole; while it is made, its memory is printed."""
    target = folder / "whole"
    if (target / "parts").is_dir() and read_audit(target).whole:
        return read_audit(target)
    began, run, seen = time.perf_counter(), start(model, images, target), 0
    click.echo(f"{'images':>7} {'MB now':>8}")
    while run.poll() is None:
        time.sleep(PAUSE)
        audit = read_audit(target) if (target / "audit.json").exists() else None
        if audit is not None and len(audit.parts) * MARKS * audit.part_size >= (seen + 1) * images:
            seen = len(audit.parts) * MARKS * audit.part_size // images
            click.echo(f"{min(len(audit.parts) * audit.part_size, images):7} {resident(run.pid):8.1f}")
    finish(run)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    click.echo(f"{images} images in {time.perf_counter() - began:.0f} s, {peak:.1f} MB at most")
    return read_audit(target)


def start(model: Path, images: int, target: Path, *more: str) -> subprocess.Popen[bytes]:
    target.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-P", "-m", "gradskip_onnx.cli", "audit", str(model), f"planted:{images}",
             "-o", str(target), "-q", *more]  # fmt: skip
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(run: subprocess.Popen[bytes]) -> None:
    said, _ = run.communicate()
    if run.returncode:
        raise click.ClickException(f"the audit ended with {run.returncode}: {said.decode(errors='replace')[-500:]}")


def done(target: Path) -> int:
    """How many parts are written."""
    return len(finished_parts(read_audit(target).place)) if (target / "audit.json").exists() else 0


def resident(pid: int) -> float:
    """Megabytes that a process holds now; 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * resource.getpagesize() / 2**20


def actors(root: int) -> Iterator[int]:
    """The processes below `root` that make parts for Ray."""
    parents: dict[int, int] = {}
    titles: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                titles[int(entry.name)] = (entry / "cmdline").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
    for pid, title in titles.items():
        if title.startswith("ray::") and "PartMaker" in title and root in _above(pid, parents):
            yield pid


def _above(pid: int, parents: dict[int, int]) -> list[int]:
    """The parents of a process, nearest first."""
    found: list[int] = []
    while pid in parents and len(found) < 100:
        pid = parents[pid]
        found.append(pid)
    return found


def say_same(one: Audit, other: Audit) -> None:
    """Print whether two audits are the same but for the seconds; raises ClickException if not."""
    if one.facts != other.facts or one.parts != other.parts:
        raise click.ClickException("the facts or the parts differ")
    for part in one.parts:
        tables = [read_part(audit.place, part).drop_columns(["seconds"]) for audit in (one, other)]
        if not tables[0].equals(tables[1]):
            different = [name for name in tables[0].column_names if not tables[0][name].equals(tables[1][name])]
            raise click.ClickException(f"part {part} differs in {', '.join(different)}")
    click.echo(f"identical: {one.table.num_rows} rows in {len(one.parts)} parts, every column but seconds")
