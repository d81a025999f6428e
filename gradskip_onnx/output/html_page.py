"""What self-contained HTML pages share: escaped templates, the policy that forbids all from outside, embedded pictures.

Names of files and classes come from strangers. Templates escape every text, and `visible` makes characters readable
that would otherwise hide, reorder or steer the text around them.
"""

from __future__ import annotations

import base64
import hashlib
import io
from importlib.resources import files
from typing import Any

from PIL import Image

from gradskip_onnx.imports.optional import import_optional

STYLE = "page.css"
QUALITY = 85
NO_BREAK = "\N{NO-BREAK SPACE}"  # between a number and its unit


def environment(package: str, **filters: Any) -> Any:
    """The jinja2 environment of a package's templates, and of those that pages share.

    All is escaped, and a name that is not there is an error.
    """
    jinja2 = import_optional("jinja2")
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _template(package, name)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"visible": visible, "capitalised": capitalised, **filters}
    return made


def _template(package: str, name: str) -> str:
    own = files(package) / name
    return (own if own.is_file() else files(__package__) / name).read_text(encoding="utf-8")


def shared_style() -> str:
    """Colours, type, tables and lists, for light and dark screens."""
    return (files(__package__) / STYLE).read_text(encoding="utf-8")


def content_policy(style: str, script: str = "") -> str:
    """A policy under which a page loads nothing, and runs and wears only what has these hashes."""
    own = f"style-src {_source(style)}" + (f"; script-src {_source(script)}" if script else "")
    return f"default-src 'none'; img-src data:; {own}; base-uri 'none'; form-action 'none'"


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def visible(text: object) -> str:
    """The text with every character that is not printed, or that changes the direction of others, as its number."""
    return "".join(c if c.isprintable() or c == NO_BREAK else f"⟨U+{ord(c):04X}⟩" for c in str(text))


def capitalised(text: str) -> str:
    """The text with its first letter large; the rest stays, unlike in jinja2's filter."""
    return text[:1].upper() + text[1:]


def jpeg_uri(image: Image.Image, quality: int = QUALITY) -> str:
    """A picture as the address that holds it."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, optimize=True)
    return data_uri(buffer.getvalue(), "jpeg")


def data_uri(content: bytes, kind: str) -> str:
    """The bytes of a picture file as the address that holds them."""
    return f"data:image/{kind};base64," + base64.b64encode(content).decode()
