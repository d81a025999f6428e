"""The demo is explained where none of the training frameworks can be imported."""

import subprocess
import sys

import numpy as np
from PIL import Image

WITHOUT_FRAMEWORKS = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "torchvision", "timm", "transformers", "onnxscript", "safetensors"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
try:
    import torch
except ModuleNotFoundError:
    pass
else:
    sys.exit("torch could be imported")

from gradskip_onnx.cli.main import main
main()
"""


def test_explain_the_demo_without_torch(tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_FRAMEWORKS, "explain", "-o", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    picture = tmp_path / "out" / "demo.png"
    assert str(picture) in done.stdout
    with Image.open(picture) as image:
        assert image.width > 2 * 336
    values = np.load(tmp_path / "out" / "demo.npy")
    assert np.isfinite(values).all()
    assert values.max() > 0
