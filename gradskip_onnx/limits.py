"""What files of unknown origin and options may ask for, each with its reason; SECURITY.md lists them."""

from __future__ import annotations

MODEL_BYTES = 2 << 30  # of the .onnx file: protocol buffers end there, and larger models keep weights beside it
PIXELS = 100_000_000  # of an image: about 300 MB decoded; the map at image size takes 400 MB more
IMAGE_BYTES = 1 << 30  # of an image file: ten times the largest photographs
INPUT_SIDE = 16_384  # pixels of a model's input that a user may ask for: 3 GB as floats
STORED_SIDE = 4_096  # the same where a file beside or inside the model asks: 200 MB, and nobody has agreed to it
TEXT_BYTES = 32 << 20  # of labels, tables and configurations: a million class names have 20 MiB
CLASSES = 1_000_000  # class numbers in a table of labels: each number up to the largest becomes a name
XML_BYTES = 4 << 20  # of an annotation: the largest of ImageNet has 20 kB
XML_DEPTH = 16  # nested elements of an annotation: Pascal VOC has 4
ARRAY_BYTES = 8 << 30  # of an array in a .npz: PathMNIST at 224 pixels has 13 GB to train on, 1 GB to test
CACHE_FILES = 256  # entries of the cache: some dozens of models
CACHE_BYTES = 512 << 20  # of all entries
CACHE_ENTRY_BYTES = 64 << 20  # of one entry; a model that carries its weights inside is not worth a second copy
THREADS = 256  # of a session: more than any processor that is sold has cores, and each takes memory for its stack
