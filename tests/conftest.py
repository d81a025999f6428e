"""Tests read every file anew: what an earlier run kept must not answer for them."""

import os

from gradskip_onnx.cache.folder import VARIABLE

os.environ[VARIABLE] = "off"
