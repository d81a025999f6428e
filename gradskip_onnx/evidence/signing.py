"""Signs a manifest and checks its signature with OpenSSF model-signing: key files only, nothing goes over a network.

The signature is a Sigstore bundle over the one file, which `model_signing verify key` reads too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradskip_onnx.errors import InputError, VerificationError
from gradskip_onnx.imports.optional import import_optional

EXTRA = "sign"
KEY_FORM = "a PEM file of an elliptic curve (prime256v1, secp384r1, secp521r1) without a password is needed"


def signer_of(key: Path) -> Any:
    """What signs with a private key; raises InputError unless it is PEM, an elliptic curve, without a password."""
    signing = import_optional("model_signing.signing", EXTRA)
    with _usable(key, "private key"):
        return signing.Config().use_elliptic_key_signer(private_key=key)


def signature_of(content: bytes, key: Path) -> bytes:
    """The signature of a manifest with a private key."""
    config = signer_of(key)
    with _files(content) as (file, signature):
        config.sign(file, signature)
        return signature.read_bytes()


def check_signature(content: bytes, signature: bytes, public_key: Path) -> None:
    """Raise VerificationError unless the signature is one of this content, made with the key that belongs to this."""
    verifying = import_optional("model_signing.verifying", EXTRA)
    with _usable(public_key, "public key"):
        config = verifying.Config().use_elliptic_key_verifier(public_key=public_key)
    with _files(content, signature) as (file, signed):
        try:
            config.verify(file, signed)
        except Exception as error:  # noqa: BLE001 (a broken bundle fails in many ways; none of them is a signature)
            reason = " ".join(str(error).split())[:200] or "it is not a signature of this manifest by this key"
            raise VerificationError(reason) from None


@contextmanager
def _files(content: bytes, signature: bytes = b"") -> Iterator[tuple[Path, Path]]:
    """The manifest and its signature as files, which is what the package takes."""
    with tempfile.TemporaryDirectory() as folder:
        file, signed = Path(folder) / "manifest.json", Path(folder) / "manifest.sig"
        file.write_bytes(content)
        signed.write_bytes(signature)
        yield file, signed


@contextmanager
def _usable(key: Path, what: str) -> Iterator[None]:
    """Turn what is wrong with a key file into an InputError that names it."""
    try:
        yield
    except (OSError, ValueError, TypeError, AttributeError) as error:  # the last two: a password, another kind of key
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise InputError(f"{what} {key.name}: cannot be used ({reason[:160]}); {KEY_FORM}") from None
