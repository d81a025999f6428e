"""Benchmarks are not installed: the checkout is put on the path, last, so that what is installed is tested."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent))
