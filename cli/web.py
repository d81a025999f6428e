"""gradskip-onnx web: writes a static site that explains images in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from .options import read_folder

EXAMPLES = """\b
Examples:
  gradskip-onnx web explained.onnx -o site
  gradskip-onnx web explained.onnx -o site --title "Which bird?" --example photo.jpg
  gradskip-onnx web explained.onnx --runtime node_modules/onnxruntime-web --no-webgpu
"""


@click.command(epilog=EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path))
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
def web(
    model: Path, output: Path, title: str, examples: tuple[Path, ...], runtime: Path | None, webgpu: bool, force: bool
) -> None:
    """Write a site that explains images in the browser with MODEL, a file written by `gradskip-onnx build`.

    The site is static: any web server shows it, also GitHub Pages, and no image leaves the device of its visitor.
    """
    from gradskip_onnx.cache.folder import default_cache
    from gradskip_onnx.web.built_file import read_built_file
    from gradskip_onnx.web.runtime_files import find_runtime
    from gradskip_onnx.web.site import write_site

    from .console import Terminal

    terminal = Terminal()
    built = read_built_file(model)
    found = find_runtime(runtime, webgpu=webgpu, cache=default_cache(), tell=lambda text: click.echo(text, err=True))
    site = write_site(built, found, output, title=title, examples=examples, force=force)
    terminal.print(f"model     {built.name}  {built.size / 1e6:.1f} MB")
    terminal.print(f"runtime   onnxruntime-web {found.version} ({found.origin})")
    terminal.print(f"site      {site.folder}  {len(site.sizes)} files, {site.size / 1e6:.1f} MB")
    terminal.print(f"to see it python -m http.server -d {site.folder} and open http://localhost:8000")
