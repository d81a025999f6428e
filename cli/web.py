"""gradskip-onnx web: writes a static site that explains images in the browser."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import preprocess_options, read_folder

if TYPE_CHECKING:
    from gradskip_onnx.web.built_file import BuiltFile

EXAMPLES = """\b
Examples:
  gradskip-onnx web                                          the site of the embedded demo
  gradskip-onnx web explained.onnx -o site
  gradskip-onnx web model.onnx --labels names.txt --preset half -o site
  gradskip-onnx web explained.onnx -o site --title "Which bird?" --example photo.jpg
  gradskip-onnx web explained.onnx --runtime node_modules/onnxruntime-web --no-webgpu
"""


@click.command(epilog=EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option("-o", "--output", callback=read_folder, default="gradskip-site", show_default=True, metavar="DIR",
              help="Folder of the site.")  # fmt: skip
@click.option("--title", default="What did the model look at?", show_default=True, help="Heading of the page.")
@click.option("--example", "examples", multiple=True, type=click.Path(path_type=Path), metavar="IMAGE",
              help="An image that visitors can try; can be given several times.")  # fmt: skip
@click.option("--runtime", type=click.Path(path_type=Path), metavar="DIR",
              help="Folder of the unpacked npm package onnxruntime-web.  [default: the cache, else npm]")  # fmt: skip
@click.option("--webgpu/--no-webgpu", default=True, show_default=True,
              help="Whether graphics processors are used where browsers offer them; 27 MB more.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an earlier site.")
@preprocess_options
def web(
    model: Path | None,
    output: Path,
    title: str,
    examples: tuple[Path, ...],
    runtime: Path | None,
    webgpu: bool,
    force: bool,
    **flags: Any,
) -> None:
    """Write a site that explains images in the browser with MODEL; without it, that of the embedded demo.

    A MODEL that was not written by `gradskip-onnx build` is built first; labels and preprocessing are for that. The
    site is static: any web server shows it, also GitHub Pages, and no image leaves the device of its visitor.
    """
    from gradskip_onnx.cache.folder import default_cache
    from gradskip_onnx.demo import demo_image, demo_model
    from gradskip_onnx.web.runtime_files import find_runtime
    from gradskip_onnx.web.site import write_site

    from .console import Terminal

    terminal = Terminal()

    def tell(text: str) -> None:
        click.echo(f"{text} ...", err=True)

    found = find_runtime(runtime, webgpu=webgpu, cache=default_cache(), tell=tell)  # fails before the model is read
    built = _built(model or demo_model(), flags, tell)
    if model is None:
        examples, force = (*examples, demo_image()), True  # the demo overwrites its own files
    site = write_site(built, found, output, title=title, examples=examples, force=force)
    terminal.print(f"model     {built.name}  {built.size / 1e6:.1f} MB, method {built.built['method']}")
    terminal.print(f"runtime   onnxruntime-web {found.version} ({found.origin})")
    terminal.print(f"site      {site.folder}  {len(site.sizes)} files, {site.size / 1e6:.1f} MB")
    terminal.print(f"to see it python -m http.server -d {site.folder} and open http://localhost:8000")


def _built(model: Path, flags: dict[str, Any], tell: Callable[[str], None]) -> BuiltFile:
    """The file if it explains itself, or what is built of it."""
    from gradskip_onnx.web.built_file import is_built, read_built_file

    if is_built(model):
        given = [name for name, value in flags.items() if value is not None]
        if given:
            raise click.UsageError(f"{model.name} is built already: --{given[0]} is an option of `build`")
        return read_built_file(model)
    from gradskip_onnx.selfcontained.save import save

    from .build import build, built_model
    from .console import Terminal

    tell(f"building the explanation into {model.name}")
    defaults = build.make_context("build", [str(model), "--output", "any", "--no-switch"]).params
    made, explainer, _ = built_model(model, defaults | flags)
    Terminal().warn(explainer.warnings)
    with tempfile.TemporaryDirectory(prefix="gradskip-") as scratch:
        path = Path(scratch) / model.name
        save(made, path, explainer.model.source)
        return read_built_file(path)
