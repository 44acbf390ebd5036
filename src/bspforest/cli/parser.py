"""The arguments of every command, and their help."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import __version__
from .data_arguments import (
    COLUMNS,
    FORMATS,
    add_columns,
    add_forest,
    add_progress,
    add_reading,
    count,
    fractions,
    names,
    positive,
)


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``bspforest`` with all its commands."""
    parser = argparse.ArgumentParser(
        prog="bspforest",
        description="Random forests that learn from a stream: every row once, as it arrives.",
        epilog="bspforest COMMAND --help says more, with examples. "
        "Exit codes: 0 success, 1 something is wrong with the data or a file, 2 with the command, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"bspforest {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (_add_demo, _add_evaluate, _add_learn, _add_predict, _add_forget, _add_info, _add_plot, _add_compile):
        command = add(commands)
        command.add_argument("--debug", action="store_true", help="show where in the program an error comes from")
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
        "[--rows N] [--trees N] [-o FILE]",
        "learn a simulated stream, with a table and a picture",
        "Every row is predicted and then learned, beside a Mondrian forest and a batch forest.",
        "  bspforest demo\n  bspforest demo --rows 5000 --trees 20",
    )
    parser.add_argument(
        "--rows", type=count, default=20_000, metavar="N", help="rows of the stream (default: %(default)s)"
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
    return parser


def _add_evaluate(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "evaluate",
        "DATA --target COL [options]",
        "predict every row of a stream, then learn it, and score the predictions",
        "Rows are taken in order, in chunks: all rows of a chunk are predicted, then all are learned\n"
        "(--chunk-rows 1 is row by row, and slower). The first chunk is only learned. Baselines see exactly\n"
        "the same. Ctrl-C ends it with the scores so far.\n\n" + FORMATS + "\n\n" + COLUMNS,
        "  bspforest evaluate electricity.csv --target class\n"
        "  bspforest evaluate flights.parquet --target delay --against mondrian,batch-rf-every-10000 --plot delay.png\n"
        "  zcat log.csv.gz | bspforest evaluate - --target status --classes ok,slow,failed --window 10000 "
        "--json scores.json",
    )
    parser.add_argument("data", metavar="DATA")
    add_columns(parser)
    group = parser.add_argument_group("scores")
    group.add_argument(
        "--chunk-rows",
        type=count,
        default=100,
        metavar="N",
        help="rows predicted before they are learned (default: %(default)s)",
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
        "--json", metavar="FILE", help='write scores and curves as JSON; "-" is standard output, in place of the table'
    )
    add_progress(parser)
    add_forest(parser)
    add_reading(parser)
    return parser


def _add_learn(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "learn",
        "DATA --target COL --model FILE [--resume | --append | --overwrite] [options]",
        "learn a stream into a model file",
        "The model is saved at the end, at checkpoints, and when the command is interrupted (Ctrl-C, SIGTERM).\n"
        "After any interruption, a power cut included, the same command with --resume goes on at the right\n"
        "row: every row is learned exactly once, and the model is the same as without the interruption.\n"
        "--resume also learns what a file has grown by.\n\n" + FORMATS + "\n\n" + COLUMNS,
        "  bspforest learn flights.csv --target delay --model delay.bsp\n"
        "  bspforest learn flights.csv --target delay --model delay.bsp --resume\n"
        "  bspforest learn february.csv --target delay --model delay.bsp --append\n"
        "  tail -n +1 -f log.csv | bspforest learn - --target class --classes a,b --model live.bsp --window 100000",
    )
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="the model file to write")
    existing = parser.add_argument_group("an existing model file").add_mutually_exclusive_group()
    existing.add_argument(
        "--resume",
        action="store_true",
        help="go on in the same DATA where the model left off; begin if there is no model",
    )
    existing.add_argument("--append", action="store_true", help="go on with other DATA, from its first row")
    existing.add_argument("--overwrite", action="store_true", help="begin anew, and replace the model")
    group = parser.add_argument_group("checkpoints")
    group.add_argument("--checkpoint-rows", type=count, metavar="N", help="save every N rows")
    group.add_argument(
        "--checkpoint-seconds",
        type=positive,
        metavar="S",
        help="save every S seconds (default: 60, unless --checkpoint-rows)",
    )
    group.add_argument("--chunk-rows", type=count, metavar="N", help="rows learned at a time (default: 1000)")
    add_progress(parser)
    add_columns(parser)
    add_forest(parser)
    add_reading(parser)
    return parser


def _add_predict(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "predict",
        "FILE DATA [-o OUT] [options]",
        "predict the rows of a stream with a saved model",
        "One row out for each row in, in order. The columns must be those the model was learned from; the\n"
        "target may be there or not.\n\n" + FORMATS,
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
        "--keep", type=names, metavar="COL,...", default=(), help="columns of DATA to put before the predictions"
    )
    parser.add_argument(
        "--drop",
        type=names,
        metavar="COL,...",
        default=(),
        help="columns of DATA that the model does not know, to be ignored",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it is there")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads (default: 1)")
    add_progress(parser)
    add_reading(parser)
    return parser


def _add_forget(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "forget",
        "FILE (--ids A,B-C,... | --ids-from FILE) [-o OUT]",
        "remove rows from a model, exactly",
        "What is left is distributed as if the rows had never been learned. Rows are counted from 0 in the\n"
        "order in which they were learned; rows that were skipped as malformed do not count.\n\n"
        "The means that fill gaps are taken anew over the rows left. The encoding stays as it was settled when\n"
        "learning began: names of categories and classes that only forgotten rows had are still in the file.\n"
        "So are the means with which gaps in other rows were filled, and a checksum of all rows, for --resume.",
        "  bspforest forget delay.bsp --ids 3,17,100-199\n"
        "  bspforest forget delay.bsp --ids-from rows.txt -o smaller.bsp",
    )
    parser.add_argument("model", type=Path, metavar="FILE", help="the model, changed in place unless -o is given")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--ids", metavar="A,B-C,...", help="rows, and ranges of rows (both ends included)")
    given.add_argument("--ids-from", metavar="FILE", help='a file with one such entry a line; "-" is standard input')
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="write the new model here, and leave FILE alone"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it is there")
    return parser


def _add_info(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "info",
        "FILE [--json]",
        "say what a model file holds",
        "Only the head of the file is read.",
        "  bspforest info delay.bsp\n  bspforest info delay.bsp --json | jq .rows",
    )
    parser.add_argument("model", type=Path, metavar="FILE", help="the model")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _add_plot(commands) -> argparse.ArgumentParser:
    parser = _add(
        commands,
        "plot",
        "FILE --dims A B -o OUT [--at NAME=X ...]",
        "draw what a model predicts over two of its features",
        "The prediction, and beside it how sure the model is. All other features are held at their medians,\n"
        "or at values given.",
        "  bspforest plot delay.bsp --dims distance dep_time -o delay.png\n"
        "  bspforest plot delay.bsp --dims distance dep_time --at month=7 --at carrier=AA=1 -o july.png",
    )
    parser.add_argument("model", type=Path, metavar="FILE", help="the model")
    parser.add_argument(
        "--dims", nargs=2, required=True, metavar=("A", "B"), help="two features, as `bspforest info` lists them"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="the picture (.png, .svg, .pdf)"
    )
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="NAME=X",
        help="hold another feature at X; may be given several times",
    )
    return parser


def _add_compile(commands) -> argparse.ArgumentParser:
    return _add(
        commands,
        "compile",
        "",
        "compile the kernels, so that nothing has to wait for it later",
        "Once on a machine, in one process a core, four at most. Otherwise each kernel is compiled when it is\n"
        "first used. To do it when a container's image is built, set NUMBA_CACHE_DIR there and where it runs to a\n"
        "folder that its user can write to. Kernels are compiled for the kind of processor that is found.",
        "  bspforest compile",
    )
