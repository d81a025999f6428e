"""What pages share: texts that cannot hide or run, a policy with the hashes of what may, pictures in addresses."""

from __future__ import annotations

import base64
import hashlib
import io

import pytest
from PIL import Image

from gradskip_onnx.output.html_page import capitalised, content_policy, environment, jpeg_uri, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat, a pet", "cat, a pet"),
        ("Katze 猫 é", "Katze 猫 é"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\x1b[2J", "⟨U+001B⟩[2J"),
        ("a\nb\tc", "a⟨U+000A⟩b⟨U+0009⟩c"),
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("\udcff", "⟨U+DCFF⟩"),
        ("5\N{NO-BREAK SPACE}%", "5\N{NO-BREAK SPACE}%"),
        (7, "7"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_its_number(text: object, shown: str):
    assert visible(text) == shown


def test_templates_escape_and_miss_nothing():
    jinja2 = pytest.importorskip("jinja2")
    found = environment("gradskip_onnx.output")

    assert found.from_string("{{ x }}").render(x="<b>&\"'") == "&lt;b&gt;&amp;&#34;&#39;"
    with pytest.raises(jinja2.UndefinedError):
        found.from_string("{{ y }}").render()


def test_the_policy_allows_only_what_has_its_hash():
    digest = base64.b64encode(hashlib.sha256(b"a{}").digest()).decode()

    assert f"style-src 'sha256-{digest}';" in content_policy("a{}")
    assert "script-src" not in content_policy("a{}")
    assert content_policy("a{}", "f()").startswith("default-src 'none'; img-src data:; style-src 'sha256-")


def test_a_picture_in_its_address():
    uri = jpeg_uri(Image.new("RGB", (7, 5), (200, 10, 10)))
    kind, _, content = uri.partition(",")

    assert kind == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (7, 5)


def test_the_first_letter_alone_changes():
    assert capitalised("iOU of DeiT") == "IOU of DeiT"
    assert capitalised("") == ""
