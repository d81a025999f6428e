"""The command group: imports a command when it is called, turns errors into one line and an exit code."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any

import click

from gradskip_onnx.errors import GradskipError, printable
from gradskip_onnx.version import __version__

from .numpy_on_zen4 import sort_quickly
from .plugin_warnings import plugin_warnings
from .quiet_libraries import quiet_libraries

UNEXPECTED, INTERRUPTED = 1, 130
TRACEBACK = "GRADSKIP_TRACEBACK"  # environment variable that stands for --traceback
HINT = "this should not happen; `gradskip-onnx --traceback COMMAND ...` shows where, please report it"
# What the machine lacks, and not the program.
SHORT_OF: dict[type[BaseException], str] = {
    MemoryError: "not enough memory; give a smaller model or image, or a smaller --batch-size",
    RecursionError: "the input is nested too deeply",
}

LONGEST = 300  # characters of a message that was not written for users

# name -> (module, what it does); a command's function has the name of its module
COMMANDS: dict[str, tuple[str, str]] = {
    "explain": (".explain", "Draw what a model looked at in images."),
    "inspect": (".inspect", "Show the blocks found in a model, and what was proven about them."),
    "evaluate": (".evaluate", "Compare methods on a model and images: table, curves, pictures."),
    "compare": (".compare", "Compare two files, devices, methods or audits: flips, and how alike the maps are."),
    "audit": (".audit", "Explain and check every image of a data set; go on after a stop."),
    "verify": (".verify", "Check an audit by hashes: nothing in it was changed."),
    "replay": (".replay", "Run a sample of an audit again, and compare."),
    "methods": (".methods", "List the methods with their cost, or one with its options."),
    "study": (".study", "Repeat a study of the paper (gamma, alpha, heads), or fit gradskip+ to a model."),
    "cache": (".cache", "Show or clear the cache of analysed models."),
    "build": (".build", "Write one ONNX file that gives the model's outputs and the map."),
    "web": (".web", "Write a site that explains images in the browser."),
    "export": (".export", "Write a PyTorch model as ONNX, with its explanation."),
}

EXAMPLES = """\b
Examples:
  gradskip-onnx explain                              the embedded demo
  gradskip-onnx explain model.onnx photo.jpg
  gradskip-onnx inspect model.onnx --why
  gradskip-onnx evaluate model.onnx photos --methods gradskip,rollout -o results
  gradskip-onnx audit model.onnx photos -o audit && gradskip-onnx verify audit
  gradskip-onnx methods
  gradskip-onnx build model.onnx -o explained.onnx
  gradskip-onnx export deit_tiny_patch16_224 -o model.onnx
"""


class Commands(click.Group):
    """A group whose help imports no command, and whose errors are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature, here and below)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0], package=__package__)
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        show_all = bool(ctx.params.get("traceback"))
        if show_all:
            with suppress(ImportError):
                import_module("onnxruntime")  # who imports it first decides what it logs: here, all it has to say
        try:
            with nullcontext() if show_all else quiet_libraries(), plugin_warnings():
                return super().invoke(ctx)
        except GradskipError as error:
            click.echo(f"error: {one_line(error)}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("error: interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # click's own ways to end
        except Exception as error:  # the last net: whatever nobody thought of is one line too
            if show_all:
                raise
            click.echo(f"error: {unexpected(error)}", err=True)
            ctx.exit(UNEXPECTED)


def one_line(error: Exception) -> str:
    """The message on one line, control characters replaced by question marks."""
    return printable(" ".join(str(error).split()))


def unexpected(error: Exception) -> str:
    """What to say of an error that is no `GradskipError`."""
    known = next((text for kind, text in SHORT_OF.items() if isinstance(error, kind)), None)
    return known or f"{type(error).__name__}: {one_line(error)[:LONGEST]}; {HINT}"


@click.group(cls=Commands, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--traceback", is_flag=True, envvar=TRACEBACK, help="Show where errors come from, and what libraries say."
)
@click.version_option(__version__, prog_name="gradskip-onnx")
def cli(traceback: bool) -> None:
    """Explain a vision transformer from its ONNX file alone.

    Exit codes: 0 ok, 1 unexpected error, 2 wrong input, 3 model not supported, 4 device missing, 5 a check failed,
    6 some images failed.
    """


def main() -> None:
    """Entry point of the console script."""
    sort_quickly()
    cli(prog_name="gradskip-onnx")
