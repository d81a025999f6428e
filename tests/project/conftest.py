"""Pages name benchmarks, which are not installed: the checkout is put on the path, last."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent))
