"""The arguments of all commands, and their help."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NoReturn

from .. import __version__
from .argument_types import count, fractions, names, port, positive
from .data_arguments import (
    COLUMNS,
    FORMATS,
    add_column_arguments,
    add_key_arguments,
    add_reading_arguments,
    add_target_arguments,
)
from .forest_arguments import add_forest_arguments
from .terminal import printable

# Of `bspforest.explore.STREAMS`, which would import numpy; the command checks that they agree.
BUILT_IN_STREAMS = ("bumps", "waves", "drift", "moons", "spirals", "checkerboard")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are safe for a terminal: they quote file names that a shell may have expanded."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, also ``--na-values -999,unknown``, which argparse would take for two options."""
        given = list(sys.argv[1:] if args is None else args)
        for k in range(len(given) - 1, 0, -1):
            if given[k - 1] == "--na-values" and given[k].startswith("-") and not given[k].startswith("--"):
                given[k - 1 : k + 1] = [f"--na-values={given[k]}"]
        return super().parse_known_args(given, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse arguments, and explain those that are left over with the usage of their command."""
        given = list(sys.argv[1:] if args is None else args)
        options, left = self.parse_known_args(given, namespace)
        if left:
            command = self.find_command(options.command)
            command.error(f"unrecognized arguments: {' '.join(left)}{_explain_left(command, given, left)}")
        return options

    def find_command(self, name: str) -> argparse.ArgumentParser:
        """Return the parser of a command."""
        (commands,) = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return commands.choices[name]


def _explain_left(command: argparse.ArgumentParser, given: list[str], left: list[str]) -> str:
    """Return a hint if the words left over follow an option whose values are separated by commas."""
    words = [word for word in left if not word.startswith("-")]
    if not words:
        return ""
    place = given.index(words[0])
    starts = [k for k in range(place) if given[k].startswith("--")]
    if not starts:
        return ""
    option, _, value = given[starts[-1]].partition("=")
    action = command._option_string_actions.get(option)
    if action is None or not str(action.metavar).endswith(",..."):
        return ""
    values = [value] if value else []
    for word in given[starts[-1] + 1 :]:
        if word.startswith("-"):
            break
        values.append(word)
    what = "columns" if str(action.metavar).startswith("COL") else "values"
    # The first value belongs to the option. If others were taken for DATA, it is not known which ones were meant.
    shown = ",".join(value.strip(",") for value in values) if set(values[1:]) <= set(words) else "A,B,..."
    return f" (several {what} are given as {option} {shown})"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of ``bspforest`` with all its commands."""
    parser = Parser(
        prog="bspforest",
        description="Random forests that learn from a stream: every row once, as it arrives.",
        epilog="See bspforest COMMAND --help for details and examples. "
        "Exit codes: 0 success, 1 error in the data or a file, 2 error in the command, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"bspforest {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (
        _add_demo,
        _add_explore,
        _add_evaluate,
        _add_learn,
        _add_predict,
        _add_forget,
        _add_info,
        _add_plot,
        _add_compile,
    ):
        command = add(commands)
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _add(commands, name: str, usage: str, summary: str, text: str, examples: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        usage=f"bspforest {name} {usage}".rstrip(),
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{text}".rstrip(),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_demo(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "demo",
        "[--rows N] [--trees N] [-o FILE] [options]",
        "learn a simulated stream that changes, and show a table and a picture",
        "Each row is predicted and then learned. A Mondrian forest and a batch forest run beside it. Halfway, other\n"
        "features begin to decide: the forest notices by itself. On the way, it learns a few rows with wrong labels,\n"
        "and forgets them.",
        "  bspforest demo\n  bspforest demo --rows 5000 --trees 20\n  bspforest demo --prediction mean",
    )
    parser.add_argument(
        "--rows", type=count, default=20_000, metavar="N", help="rows in the stream (default: %(default)s)"
    )
    parser.add_argument(
        "--trees", type=count, default=50, metavar="N", help="trees in each forest (default: %(default)s)"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("out/demo.png"),
        metavar="FILE",
        help="the picture (default: %(default)s)",
    )
    add_forest_arguments(parser, ("prediction", "scaling", "feature_weights", "bandwidth", "ridge"))
    return parser


def _add_explore(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "explore",
        "[DATA --target COL --columns A B] [--stream NAME] [options]",
        "see forests learn a stream in the plane, on a page in the browser",
        "Rows stream in, and two forests learn them side by side. Click to add rows, click rows to have them forgotten, and\n"
        "travel through budgets. The page is served to this machine only, and nothing is saved; Ctrl-C stops it.\n\n"
        + FORMATS
        + "\nThe page shows up to 5,000 rows; those with a gap in one of the two columns are left out.",
        "  bspforest explore\n"
        "  bspforest explore --stream spirals --trees 100\n"
        "  bspforest explore flights.csv --target delay --columns distance dep_time",
    )
    parser.add_argument("data", metavar="DATA", nargs="?", help="without it, a built-in stream")
    parser.add_argument(
        "--stream",
        choices=BUILT_IN_STREAMS,
        help="the built-in stream to begin with; the page can choose another one (default: bumps)",
    )
    group = parser.add_argument_group("columns")
    group.add_argument("--columns", nargs=2, metavar=("A", "B"), help="two columns of numbers, the axes of the plane")
    add_target_arguments(group, required=False)
    group = parser.add_argument_group("the page")
    group.add_argument("--port", type=port, default=0, metavar="N", help="on 127.0.0.1 (default: any that is free)")
    group.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")
    parser.add_argument(
        "--trees", type=count, default=40, metavar="N", help="trees in each forest (default: %(default)s)"
    )
    add_forest_arguments(parser, ("seed", "window"))
    add_reading_arguments(parser)
    return parser


def _add_evaluate(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "evaluate",
        "DATA --target COL [options]",
        "predict every row of a stream, then learn it, and score the predictions",
        "Rows are taken in order, in chunks: all rows of a chunk are predicted, then all are learned\n"
        "(--chunk-rows 1 is row by row, and slower). The first chunk is only learned. Baselines see exactly\n"
        "the same rows. Ctrl-C stops with the scores so far. Importances of features are shown as they were along\n"
        "the stream; --progress adds what the forest decided on the way.\n\n" + FORMATS + "\n\n" + COLUMNS,
        "  bspforest evaluate electricity.csv --target class\n"
        "  bspforest evaluate flights.parquet --target delay --against mondrian,batch-rf-every-10000 --plot delay.png\n"
        "  bspforest evaluate sales.csv --target amount --against no-change --report sales.html\n"
        "  zcat log.csv.gz | bspforest evaluate - --target status --classes ok,slow,failed --window 10000 "
        "--json scores.json",
    )
    parser.add_argument("data", metavar="DATA")
    add_column_arguments(parser)
    group = parser.add_argument_group("scores")
    group.add_argument(
        "--chunk-rows",
        type=count,
        default=100,
        metavar="N",
        help="rows predicted, then learned, at a time (default: %(default)s)",
    )
    group.add_argument(
        "--score-window",
        type=count,
        default=1_000,
        metavar="N",
        help="rows of the running score (default: %(default)s)",
    )
    group.add_argument(
        "--against",
        type=names,
        default=(),
        metavar="NAME,...",
        help="baselines: mondrian, river-arf, hoeffding, batch-rf-every-N (keeps all rows in memory), no-change, "
        "majority",
    )
    group.add_argument("--max-rows", type=count, metavar="N", help="stop after N rows")
    group.add_argument("--plot", type=Path, metavar="FILE", help="draw the running score (.png, .svg, .pdf)")
    group.add_argument(
        "--report",
        type=Path,
        metavar="FILE.html",
        help="write a page with pictures: error over time and drift, calibration or intervals, confusion or residuals, "
        "importances, revisions",
    )
    group.add_argument(
        "--json", metavar="FILE", help='write scores and curves as JSON; "-" prints them instead of the table'
    )
    _add_progress(parser)
    add_forest_arguments(parser)
    add_reading_arguments(parser)
    return parser


def _add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        type=positive,
        default=0.0,
        metavar="S",
        help="seconds to wait while another process writes the model (default: stop at once, and name it)",
    )


def _add_learn(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "learn",
        "DATA --model FILE [--target COL] [--resume | --append | --overwrite] [options]",
        "learn a stream into a model file",
        "The model is saved at the end, at checkpoints, and when the command is interrupted (Ctrl-C, SIGTERM, SIGHUP).\n"
        "After any interruption, even a power cut, the same command with --resume continues at the right row:\n"
        "each row is learned exactly once, and the model is the same as without the interruption.\n"
        "--resume also learns the rows that were added to a file since. With --resume and --append, the target, the\n"
        "key, dropped columns and markers of missing values are those of the model.\n\n" + FORMATS + "\n\n" + COLUMNS,
        "  bspforest learn flights.csv --target delay --model delay.bsp\n"
        "  bspforest learn flights.csv --model delay.bsp --resume\n"
        "  bspforest learn february.csv --model delay.bsp --append\n"
        "  tail -n +1 -f log.csv | bspforest learn - --target class --classes a,b --model live.bsp --window 100000",
    )
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="the model file to write")
    existing = parser.add_argument_group("an existing model file").add_mutually_exclusive_group()
    existing.add_argument(
        "--resume",
        action="store_true",
        help="continue in the same DATA after the last row learned; start anew if there is no model",
    )
    existing.add_argument("--append", action="store_true", help="continue with other DATA, from its first row")
    existing.add_argument("--overwrite", action="store_true", help="start anew, and replace the model")
    group = parser.add_argument_group("checkpoints")
    group.add_argument("--checkpoint-rows", type=count, metavar="N", help="save every N rows")
    group.add_argument(
        "--checkpoint-seconds",
        type=positive,
        metavar="S",
        help="save every S seconds (default: 60, unless --checkpoint-rows)",
    )
    group.add_argument(
        "--compress",
        action=argparse.BooleanOptionalAction,
        help="write a smaller file, in more time (default: as the existing file is, a new one is not compressed)",
    )
    group.add_argument("--chunk-rows", type=count, metavar="N", help="rows learned at a time (default: 1000)")
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="learn on the Dask cluster of this scheduler, or with local:N on N processes of this machine; the model is the same",
    )
    _add_wait(parser)
    _add_progress(parser)
    add_column_arguments(parser, needs_target=False)
    add_key_arguments(parser)
    add_forest_arguments(parser)
    add_reading_arguments(parser)
    return parser


def _add_predict(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "predict",
        "FILE DATA [-o OUT] [options]",
        "predict the rows of a stream with a saved model",
        "Writes one prediction per row, in order. The columns must be those the model was learned from; the\n"
        "target may be missing.\n\n" + FORMATS,
        "  bspforest predict delay.bsp new.csv > predictions.csv\n"
        "  bspforest predict delay.bsp new.csv --std --quantiles 0.05,0.95 --keep flight_id -o predictions.parquet\n"
        "  cat new.csv | bspforest predict class.bsp - --proba",
    )
    parser.add_argument("model", type=Path, metavar="FILE", help="the model")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        default="-",
        help="CSV, or Parquet if it ends in .parquet (default: CSV on standard output)",
    )
    parser.add_argument("--proba", action="store_true", help="classification: the probability of each class")
    parser.add_argument("--std", action="store_true", help="regression: the standard deviation")
    parser.add_argument(
        "--quantiles", type=fractions, metavar="Q,...", default=(), help="regression: quantiles, such as 0.05,0.5,0.95"
    )
    parser.add_argument(
        "--keep", type=names, metavar="COL,...", default=(), help="columns of DATA to copy in front of the predictions"
    )
    parser.add_argument(
        "--drop",
        type=names,
        metavar="COL,...",
        default=(),
        help="columns of DATA that the model does not know, to ignore",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads (default: 1)")
    _add_progress(parser)
    add_reading_arguments(parser)
    return parser


def _add_forget(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "forget",
        "FILE (--ids A,B-C,... | --ids-from FILE | --key KEY ... | --keys FILE) [-o OUT]",
        "remove rows from a model, exactly",
        "The remaining model is distributed as if the rows had never been learned. Rows are counted from 0 in\n"
        "the order in which they were learned, without malformed rows that were skipped; or they are named by the\n"
        "keys they were learned with (learn --key): all rows of a key are forgotten.\n\n"
        "Means that replace missing numbers are those of the remaining rows, also where they have replaced some,\n"
        "and names of categories that only forgotten rows had are gone. Names of classes, and a checksum of all\n"
        "rows, which --resume needs, stay in the file.",
        "  bspforest forget delay.bsp --ids 3,17,100-199\n"
        "  bspforest forget delay.bsp --ids-from rows.txt -o smaller.bsp\n"
        "  bspforest forget delay.bsp --key ord-00011\n"
        "  bspforest forget delay.bsp --keys customers.txt",
    )
    parser.add_argument("model", type=Path, metavar="FILE", help="the model, changed in place unless -o is given")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--ids", metavar="A,B-C,...", help="rows, and ranges of rows (both ends included)")
    given.add_argument(
        "--ids-from", metavar="FILE", help='a file with one row or range per line; "-" is standard input'
    )
    given.add_argument(
        "--key",
        action="append",
        metavar="KEY",
        help="a key, all rows of which are forgotten; can be given several times",
    )
    given.add_argument("--keys", metavar="FILE", help='a file with one key per line; "-" is standard input')
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="write the new model here, and do not change FILE"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    _add_wait(parser)
    return parser


def _add_info(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "info",
        "FILE [--json]",
        "show what a model file holds",
        "Only the header of the file is read.",
        "  bspforest info delay.bsp\n  bspforest info delay.bsp --json | jq .rows",
    )
    parser.add_argument("model", type=Path, metavar="FILE", help="the model")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_plot(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "plot",
        "FILE -o OUT [--dims A B] [--at NAME=VALUE ...]",
        "draw the predictions of a model over two of its features",
        "Draws the prediction, and beside it how certain it is. All other columns are fixed at the values given; those\n"
        "without one at their medians, or for text at the most frequent category. Outliers do not stretch the axes, and\n"
        "areas far from all rows are blank; a note says how many rows lie outside, and what is far.",
        "  bspforest plot delay.bsp -o delay.png\n"
        "  bspforest plot delay.bsp --dims distance dep_time -o delay.png\n"
        "  bspforest plot delay.bsp --dims distance dep_time --at month=7 --at carrier=AA -o july.png",
    )
    parser.add_argument("model", type=Path, metavar="FILE", help="the model")
    parser.add_argument(
        "--dims",
        nargs=2,
        metavar=("A", "B"),
        help="two columns of numbers, or features as `bspforest info` lists them (default: the two most important columns of "
        "numbers that --at does not fix)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="the picture (.png, .svg, .pdf)"
    )
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="fix another column at a number, a category of text, (other) or (missing); can be given several times",
    )
    return parser


def _add_compile(commands) -> argparse.ArgumentParser:
    return _add(
        commands,
        "compile",
        "",
        "compile the kernels ahead of their first use",
        "Needed once on a machine; takes one process per core, at most four. Otherwise each kernel is compiled\n"
        "when it is first used. To compile while building a container image, set NUMBA_CACHE_DIR, both in the\n"
        "build and in the container, to a folder that its user can write to. Kernels are compiled for the\n"
        "processor of the machine that compiles them.",
        "  bspforest compile",
    )


def _add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show progress on standard error (default: only on a terminal)",
    )
