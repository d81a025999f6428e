"""A manifest is signed with a key file and checked with its public half, by us and by the package's own program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("model_signing")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gradskip_onnx.errors import InputError
from gradskip_onnx.evidence.manifest import MANIFEST, SIGNATURE, write_manifest
from gradskip_onnx.evidence.verify import Verification, verify
from tests.evidence.conftest import Case


def keys(folder: Path, name: str = "key", made: Any = None, password: bytes = b"") -> tuple[Path, Path]:
    private = made or ec.generate_private_key(ec.SECP256R1())
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    lock = serialization.BestAvailableEncryption(password) if password else plain
    secret, public = folder / f"{name}.pem", folder / f"{name}.pub"
    secret.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, lock))
    public.write_bytes(
        private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return secret, public


def checked(case: Case, public: Path):
    return verify(Verification(case.place, public_key=public, sources=False))


def test_a_signed_manifest(case: Case, tmp_path: Path):
    secret, public = keys(tmp_path)
    write_manifest(case.place, secret)
    found = checked(case, public)

    assert found.failed == ()
    assert SIGNATURE in [check.what for check in found.checks]
    assert "signed" in found.proves


def test_the_signature_is_one_of_the_package(case: Case, tmp_path: Path):
    secret, public = keys(tmp_path)
    write_manifest(case.place, secret)
    command = [sys.executable, "-m", "model_signing", "verify", "key", str(case.folder / MANIFEST),
               "--signature", str(case.folder / SIGNATURE), "--public_key", str(public)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_a_manifest_made_anew_loses_its_signature(case: Case, tmp_path: Path):
    """Sealed again without the key: the old signature is gone, and put back it does not fit."""
    secret, public = keys(tmp_path)
    write_manifest(case.place, secret)
    old = (case.folder / SIGNATURE).read_bytes()
    (case.folder / "report.html").write_text("<p>another page</p>")
    write_manifest(case.place)
    unsigned = checked(case, public)
    (case.folder / SIGNATURE).write_bytes(old)
    tampered = checked(case, public)

    assert [check.what for check in unsigned.failed] == [SIGNATURE]
    assert [check.what for check in tampered.failed] == [SIGNATURE]


def test_the_key_of_somebody_else(case: Case, tmp_path: Path):
    secret, _ = keys(tmp_path)
    _, other = keys(tmp_path, "other")
    write_manifest(case.place, secret)

    assert [check.what for check in checked(case, other).failed] == [SIGNATURE]


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\x00", b'{"mediaType": "x"}'])
def test_a_broken_signature(case: Case, tmp_path: Path, content: bytes):
    secret, public = keys(tmp_path)
    write_manifest(case.place, secret)
    (case.folder / SIGNATURE).write_bytes(content)

    assert [check.what for check in checked(case, public).failed] == [SIGNATURE]


def test_a_signature_without_a_key_is_not_checked(case: Case, tmp_path: Path):
    write_manifest(case.place, keys(tmp_path)[0])
    found = verify(Verification(case.place, sources=False))

    assert [check.state for check in found.checks if check.what == SIGNATURE] == ["not checked"]
    assert "could have made all of them anew" in found.proves


@pytest.mark.parametrize("kind", ["missing", "text", "rsa", "password", "curve"])
def test_keys_that_cannot_be_used(case: Case, tmp_path: Path, kind: str):
    made: Any = None
    if kind == "rsa":
        made = rsa.generate_private_key(65537, 2048)
    elif kind == "curve":
        made = ec.generate_private_key(ec.SECP256K1())
    secret, _ = keys(tmp_path, made=made, password=b"x" if kind == "password" else b"")
    if kind == "missing":
        secret.unlink()
    elif kind == "text":
        secret.write_text("no key")
    with pytest.raises(InputError, match=r"private key key\.pem: cannot be used"):
        write_manifest(case.place, secret)
