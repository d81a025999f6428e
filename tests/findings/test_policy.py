"""Policy files: what is understood, and that everything else is refused with the nearest that exists."""

from __future__ import annotations

import hashlib

import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.findings.find import finding_names
from gradskip_onnx.findings.policy import ClusterThreshold, Threshold, read_policy

pytest.importorskip("pyarrow")
KNOWN = finding_names(["logo"])


@pytest.fixture
def read(tmp_path):
    def call(text: str, **options):
        path = tmp_path / "policy.toml"
        path.write_text(text, encoding="utf-8")
        return read_policy(path, KNOWN, **options)

    return call


def test_every_key_is_read(read):
    text = """
        [findings.border]
        max = 0.4

        [[findings."region:logo"]]
        max = 0.1
        bound = "low"
        classes = "every"
        images = 20

        [[findings."region:logo"]]
        flagged = 0
        classes = ["star", 3]

        [drift.accuracy]
        min = -0.02

        [clusters]
        minority = 1
        of = "all"
    """
    found = read(text)

    assert found.thresholds == (
        Threshold("findings", "findings.border", "border", None, 0.4, None, "value", "all", 10),
        Threshold("findings", "findings.region:logo[0]", "region:logo", None, 0.1, None, "low", "every", 20),
        Threshold("findings", "findings.region:logo[1]", "region:logo", None, None, 0, "value", ("star", 3), 10),
        Threshold("drift", "drift.accuracy", "accuracy", -0.02, None, None, "value", "all", 10),
    )
    assert found.clusters == ClusterThreshold(1, "all")
    assert found.sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no thresholds in it"),
        ("[finding.border]\nmax = 1", "unknown .*section 'finding'; did you mean 'findings'"),
        ("[findings.boarder]\nmax = 1", "'boarder'; did you mean 'border'"),
        ('[findings."region:lgo"]\nmax = 1', "did you mean 'region:logo'"),
        ("[findings.border]\nmaximum = 1", "unknown .*key 'maximum'"),
        ("[findings.border]\nbound = 'low'", "no threshold; give min, max or flagged"),
        ("[findings.border]\nmax = 'much'", "max is 'much', a number is expected"),
        ("[findings.border]\nmax = nan", "max is nan, a number is expected"),
        ("[findings.border]\nmax = true", "max is True, a number is expected"),
        ("[findings.border]\nmax = 1\nbound = 'hihg'", "did you mean 'high'"),
        ("[findings.border]\nmax = 1\nbound = 3", "unknown .*bound 3"),
        ("[findings.border]\nmax = 1\nclasses = 'cat'", 'write "all", "every", or a list'),
        ("[findings.border]\nmax = 1\nclasses = []", "a list of names or numbers"),
        ("[findings.border]\nmax = 1\nimages = -1", "a whole number from 0 on"),
        ("[findings]\nborder = 1", "it is 1, a table of keys and values is expected"),
        ("findings = 1", "findings is 1, a table"),
        ("[drift.border]\nflagged = 0", "drift flags nothing"),
        ("[clusters]\nof = 'all'", "give minority"),
        ("[clusters]\nminority = 0.5", "minority is 0.5, a whole number"),
        ("[clusters]\nminority = 0\nof = 'everything'", "unknown .*'everything'"),
        ("[findings.border\nmax = 1", "not TOML"),
    ],
)
def test_what_is_not_understood_is_refused(read, text, message):
    with pytest.raises(InputError, match=message):
        read(text)


def test_a_comparison_knows_fewer_sections(read):
    with pytest.raises(InputError, match=r"section 'clusters'.*known: findings"):
        read("[clusters]\nminority = 0", sections=("findings",))


def test_a_policy_must_be_text(tmp_path):
    (tmp_path / "policy.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not TOML"):
        read_policy(tmp_path / "policy.toml", KNOWN)
    with pytest.raises(InputError, match="cannot be read"):
        read_policy(tmp_path / "none.toml", KNOWN)
