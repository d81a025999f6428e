"""Warnings about installed packages as one line of ours, instead of Python's two with a path and code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from gradskip_onnx.errors import printable


@contextmanager
def plugin_warnings() -> Iterator[None]:
    """Say in one line which package cannot be used; nothing with --quiet."""
    with warnings.catch_warnings():
        warnings.showwarning = _shown(warnings.showwarning)
        yield


def _shown(otherwise: Any) -> Any:
    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category.__name__ != "PluginWarning":  # by name: its module need not be imported for --help
            otherwise(message, category, *where, **more)
            return
        context = click.get_current_context(silent=True)
        if context is None or not context.params.get("quiet"):
            click.echo(f"warning: {printable(' '.join(str(message).split()))}", err=True)

    return show
