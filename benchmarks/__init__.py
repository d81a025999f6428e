"""Programs that measure or make what the project ships; none of them is installed.

`python -m benchmarks.…` puts the checkout in front of all that is installed, and its folder gradskip_onnx lacks the
parts that lie beside it (cli, exporters). So the checkout is moved to the end of the path.
"""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)
sys.path[:] = [*(entry for entry in sys.path if str(Path(entry).resolve()) != ROOT), ROOT]
