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
# The methods of the paper but for rise, at their authors' settings; then what asks the model 4,001 times an image.
IN_PAPER = "gradskip+,tis,mutex,pe-lrp,attnlrp,chefer2,gradskip,chefer1,tam,vit-cx,finer-cam,ah+ln"
RANDOM_MASKS = "gradskip+,rise,tis,pe-lrp,gradskip"
# These ask the model less often than their authors did: two cores are all there is.
MASKED = "gradskip+,score-cam[channels=48],integrated-gradients[steps=16],smoothgrad[samples=16],attention-flow"
STEPS_BACK = (
    "gradskip[steps=0],gradskip,gradskip[steps=1],gradskip[steps=2],gradskip[steps=4],gradskip[steps=8],"
    "gradskip[gate=branch],gradskip[gate=attention],gradskip[tokens=branch,steps=0],gradskip[tokens=branch],"
    "gradskip[tokens=branch,gate=attention],gradskip[alpha=1],gradskip[alpha=0],gradskip[weight=key]"
)
# What the paper leaves open, one answer at a time; two starts without a walk.
READINGS = (
    "gradskip,gradskip[special=keep],gradskip[gradient=probability],gradskip[tokens=input],gradskip[tokens=normed],"
    "gradskip[tokens=branch],gradskip[select=one],gradskip[gate=branch],gradskip[gate=attention],gradskip[weight=key],"
    "gradskip[steps=0],gradskip[tokens=normed,steps=0]"
)
PARTS = (
    "gradskip+,gradskip+[share=0.75],gradskip+[against=nothing],gradskip+[gamma_conv=0],gradskip+[detail=0],"
    "gradskip+[detail=1],gradskip+[pixels=0],gradskip+[pixels=1],gradskip+[detail=0,pixels=0],"
    "gradskip+[first=1,last=12],gradskip+[rules=gradient]"
)
STEPS = "[steps=14]"  # half as many as usual, for the same reason
FAITHFUL = f"insertion-deletion{STEPS},insertion{STEPS},deletion{STEPS}"
TRUTH = f"pointing-game,pixel-accuracy,miou,insertion-deletion{STEPS}"
SUBSTRATES = ",".join(
    f"insertion-deletion[steps=14,substrate={substrate}{unit}]"
    for unit in ("", ",unit=patch")
    for substrate in ("mean", "black", "random")
)
THREE = ",".join(f"insertion-deletion[steps=14,substrate={name}]" for name in ("mean", "black", "random"))
AS_IN_PAPER = ",".join(f"insertion-deletion[substrate={substrate}]" for substrate in ("mean", "black", "random"))
BY_PATCHES = ",".join(
    f"insertion-deletion[steps=14,substrate={substrate},unit=patch]" for substrate in ("mean", "black", "random")
)
VIOLATIONS = ",".join(f"faithfulness-violation[substrate={substrate}]" for substrate in ("mean", "black", "random"))
BOXED = "pointing-game[largest=0.6],pointing-energy[largest=0.6]"
# Pixel accuracy and mIoU as they are usually meant, then the other readings; by the mean and by the paper's two rules.
CUTS = ("", "[threshold=value75]", "[threshold=top75]")
MASKS = ",".join(f"{name}{cut}" for cut in CUTS for name in ("pixel-accuracy", "miou"))
OTHER_MASKS = ",".join(f"{name}{cut}" for cut in CUTS for name in ("pixel-recall", "iou"))
CHECKS = "randomisation,class-sensitivity,noise-stability,zero-shift,spelling"
STRONG = "gradskip+,pe-lrp,attnlrp,chefer2,legrad,grad-cam,gradskip,rollout"  # for what takes many passes


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

SHARED = ("--threads", "1", "--pictures", "4", "--reference", "gradskip+")
HELD_OUT = ("--part", "2/2", *SHARED)
PLANTED = ("--target", "label", *SHARED)
TUNING = (
    "--part",
    "1/2",
    "--limit",
    "40",
    "--threads",
    "1",
    "--pictures",
    "0",
)  # its reference is its own first method
TUNING_SCENES = "planted:300:50000"
SMALL_PARTS = PARTS.replace("gradskip+[first=1,last=12],", "")  # these models have five or six blocks
ON_PLANTED = (("vit", VIT), ("deit", DISTILLED), ("segformer", SEGFORMER))

RUNS = (
    Run("steps", "deit_tiny.onnx", IMAGES, STEPS_BACK, FAITHFUL, "steps", TUNING),
    Run("readings", "deit_tiny.onnx", IMAGES, READINGS, THREE, "readings", TUNING),
    Run("parts", "deit_tiny.onnx", IMAGES, PARTS, FAITHFUL, "parts", TUNING),
    *(
        Run(f"parts-{name}", file, TUNING_SCENES, SMALL_PARTS, "pointing-game", f"parts-{name}", PLANTED)
        for name, file in ON_PLANTED
    ),
    Run("deit-substrates", "deit_tiny.onnx", IMAGES, STRONG, SUBSTRATES, "substrates", ("--limit", "60", *HELD_OUT)),
    Run("deit-paper", "deit_tiny.onnx", IMAGES, IN_PAPER, f"{AS_IN_PAPER},{VIOLATIONS}", "paper", HELD_OUT),
    Run("deit-patches", "deit_tiny.onnx", IMAGES, "gradskip+,tis,mutex", BY_PATCHES, "paper", HELD_OUT),
    Run("deit-rise", "deit_tiny.onnx", IMAGES, RANDOM_MASKS, f"{AS_IN_PAPER},{VIOLATIONS}", "paper", HELD_OUT),
    Run("deit-boxes", "deit_tiny.onnx", "photographs", ONE_PASS, BOXED, "boxes", HELD_OUT),
    Run("deit-checks", "deit_tiny.onnx", IMAGES, ONE_PASS, CHECKS, "checks", ("--limit", "16", *HELD_OUT)),
    Run("cifar10", "cifar10.onnx", "cifar10_test", STRONG, SUBSTRATES, "cifar10", ("--limit", "100", *SHARED)),
    Run("bccd", "bccd.onnx", "bccd_test", STRONG, f"{SUBSTRATES},pointing-game", "bccd", ("--limit", "100", *SHARED)),
    *(
        Run(f"planted-{name}", file, "planted:200", ONE_PASS, TRUTH, f"planted-{name}", PLANTED)
        for name, file in ON_PLANTED
    ),
    *(
        Run(f"pointing-{name}", file, "planted:1000", ONE_PASS, "pointing-game", f"planted-{name}", PLANTED)
        for name, file in ON_PLANTED
    ),
    Run("segformer-masks", SEGFORMER, "planted:200", ONE_PASS, MASKS, "segformer-masks", PLANTED),
    Run("segformer-masks-otherwise", SEGFORMER, "planted:200", ONE_PASS, OTHER_MASKS, "segformer-masks", PLANTED),
    Run("deit-masked", "deit_tiny.onnx", IMAGES, MASKED, FAITHFUL, "deit", ("--limit", "16", *HELD_OUT)),
    Run("deit", "deit_tiny.onnx", IMAGES, ONE_PASS, FAITHFUL, "deit", SHARED),
    Run("flops-vit-base", "vit_base.onnx", "planted:1", ONE_PASS, "gflops", "flops-vit-base"),
    Run("flops-segformer", "segformer_b0.onnx", "planted:1", ONE_PASS, "gflops", "flops-segformer"),
    Run("flops-deit", "deit_tiny.onnx", "planted:1", ONE_PASS, "gflops", "flops-deit"),
)
