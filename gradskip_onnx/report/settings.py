"""The settings of an audit, in words, for the page and the model card."""

from __future__ import annotations

from collections.abc import Mapping

from .content import Content


def settings(content: Content) -> list[tuple[str, str]]:
    """Names and values of what was asked for."""
    facts = content.facts
    preprocess = facts["preprocess"]
    size = preprocess.get("size", facts["image_size"])
    found = [
        ("model", f"{facts['model']['file']}, {facts['task']}, {facts['classes']} classes"),
        ("data", f"{content.data}, layout {facts['data']['layout']}"),
        ("method", f"{facts['method']} ({_options(facts['options'])})" if facts["options"] else facts["method"]),
        ("explained", f"the {facts['score']} of the {facts.get('target', 'predicted')} class"),
        ("input", f"{size[0]} x {size[1]} pixels, seen as {facts['grid'][0]} x {facts['grid'][1]} patches"),
        ("check", _options(facts["check"])),
        ("regions", ", ".join(_region(one) for one in facts["regions"])),
        ("provider", facts["provider"]),
        ("seed", str(facts["seed"])),
    ]
    return [(name, str(text)) for name, text in found if text]


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in options.items()
    )


def _region(region: Mapping[str, object]) -> str:
    return f"{region.get('name')} ({region.get('text') or region.get('kind')})"
