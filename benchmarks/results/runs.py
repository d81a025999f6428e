"""The runs behind docs/results.md: models, images, methods and metrics, each one command of gradskip-onnx."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
IMAGES = "$GRADSKIP_ASSETS/images"
CHECKPOINT = "$GRADSKIP_ASSETS/deit_tiny/deit_tiny_patch16_224.pth"

ONE_PASS = (
    "gradskip+,gradskip,chefer1,chefer2,ah+ln,attnlrp,attnlrp[variant=full],pe-lrp,legrad,grad-cam,grad-cam++,finer-cam,"
    "raw-attention,rollout,input-x-gradient"
)
# What asks the model many times does so less often than its authors did: two cores are all there is.
DROPPED = "gradskip,mutex,tis[masks=256]"
MASKED = (
    "gradskip,tam,vit-cx,score-cam[channels=48],integrated-gradients[steps=16],smoothgrad[samples=16],rise[masks=200]"
)
STEPS = "[steps=14]"  # half as many as usual, for the same reason
FAITHFUL = f"insertion-deletion{STEPS},insertion{STEPS},deletion{STEPS}"
TRUTH = f"pointing-game,pixel-accuracy,miou,insertion-deletion{STEPS}"


@dataclass(frozen=True, slots=True)
class Run:
    """One call of `gradskip-onnx evaluate`; runs into the same folder share what they measure."""

    name: str
    model: str
    data: str
    methods: str
    metrics: str
    folder: str
    flags: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The command, without the name of the program."""
        lists = ["--methods", self.methods, "--metrics", self.metrics]
        return ["evaluate", self.model, self.data, *lists, *self.flags, "-o", self.folder]


@dataclass(frozen=True, slots=True)
class Export:
    """One call of `gradskip-onnx export`, for a model that is not in the repository."""

    file: str
    source: str
    flags: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return ["export", self.source, *self.flags, "-o", self.file]


EXPORTS = (
    Export("deit_tiny.onnx", "deit_tiny_patch16_224", ("--checkpoint", CHECKPOINT)),
    Export("vit_base.onnx", "vit_base_patch16_224", ("--random-weights",)),
    Export("segformer_b0.onnx", "segformer_b0", ("--random-weights",)),
)

VIT, DISTILLED, SEGFORMER = (
    str(ROOT / path)
    for path in ("gradskip_onnx/demo/vit.onnx", "tests/fixtures/deit_distilled.onnx", "tests/fixtures/segformer.onnx")
)

HELD_OUT = ("--part", "2/2", "--pictures", "4", "--reference", "gradskip")
PLANTED = ("--target", "label", "--pictures", "4", "--reference", "gradskip")

RUNS = (
    Run("deit", "deit_tiny.onnx", IMAGES, ONE_PASS, FAITHFUL, "deit", HELD_OUT),
    Run("deit-dropped", "deit_tiny.onnx", IMAGES, DROPPED, FAITHFUL, "deit", HELD_OUT),
    Run("deit-masked", "deit_tiny.onnx", IMAGES, MASKED, FAITHFUL, "deit", HELD_OUT),
    Run("planted-vit", VIT, "planted:200", ONE_PASS, TRUTH, "planted-vit", PLANTED),
    Run("planted-deit", DISTILLED, "planted:200", ONE_PASS, TRUTH, "planted-deit", PLANTED),
    Run("planted-segformer", SEGFORMER, "planted:200", ONE_PASS, TRUTH, "planted-segformer", PLANTED),
    Run("flops-vit-base", "vit_base.onnx", "planted:1", ONE_PASS, "gflops", "flops-vit-base"),
    Run("flops-segformer", "segformer_b0.onnx", "planted:1", ONE_PASS, "gflops", "flops-segformer"),
)
