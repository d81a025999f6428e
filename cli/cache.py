"""gradskip-onnx cache: shows or clears the cache of analysed models."""

from __future__ import annotations

import click

EXAMPLES = """\b
Examples:
  gradskip-onnx cache
  gradskip-onnx cache --clear
  GRADSKIP_CACHE=off gradskip-onnx explain model.onnx photo.jpg        keep nothing
  GRADSKIP_CACHE=/data/cache gradskip-onnx explain model.onnx photo.jpg
"""


@click.command(epilog=EXAMPLES)
@click.option("--clear", is_flag=True, help="Remove all entries.")
def cache(clear: bool) -> None:
    """Show the folder of the cache and the number of entries in it.

    An entry holds the analysis of a model and the graph built from it, but not its weights, so that a second call on
    the same file need not repeat the work. Entries are found by the content of the file.
    """
    from gradskip_onnx.cache.folder import default_cache

    found = default_cache()
    if found is None:
        click.echo("nothing is kept: GRADSKIP_CACHE is off")
        return
    if reason := found.distrust():
        click.echo(f"warning: {reason}", err=True)
    if clear:
        click.echo(f"{found.clear()} entries removed from {found.folder}")
        return
    files = found.files()
    click.echo(f"folder    {found.folder}")
    click.echo(f"entries   {len(files)}, {sum(state.st_size for _, state in files) / 1e6:.1f} MB")
