"""python -m gradskip_onnx.cli"""

from .main import main

main()
