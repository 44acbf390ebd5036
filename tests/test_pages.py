"""Run the code blocks of the README and of the pages of the documentation, in order, page by page.

- ``python`` blocks with prompts are doctests, those without are executed; blocks of a page share their names and a folder.
- ``sh`` blocks: ``bspforest`` commands are run in the same folder. What reads a pipe is only parsed; ``make`` targets, extras and
  scripts must exist.
- ``text`` blocks are output of the commands before, but for the last word of each line, which may be a time.
- An HTML comment before a block, ``<!-- not run: reason -->``, skips it; options of commands are parsed all the same.
"""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

import bspforest
from bspforest import datasets, files, plotting, tables
from bspforest.cli.main import main
from bspforest.cli.parser import make_parser

ROOT = Path(__file__).parents[1]
BUILT = {"_build", "gallery", "generated", "pictures"}
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if not BUILT & set(page.relative_to(ROOT).parts)),
]
BLOCK = re.compile(r"(?P<skip><!-- not run: [^\n]+ -->\n+)?^```(?P<language>[^`\n]*)\n(?P<code>.*?)^```$", re.M | re.S)
LANGUAGES = {"python", "sh", "text"}


class Block(NamedTuple):
    """A code block of a page, and the number of its first line."""

    language: str
    code: str
    line: int
    is_skipped: bool


def read_blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, without directives of Sphinx."""
    text = page.read_text()
    return [
        Block(found["language"], found["code"], text[: found.start("code")].count("\n") + 1, bool(found["skip"]))
        for found in BLOCK.finditer(text)
        if not found["language"].startswith("{")
    ]


def run_python(block: Block, page: Path, names: dict) -> None:
    """Run a doctest, or execute the code."""
    if not block.code.startswith(">>>"):
        exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.code, names, page.name, str(page), block.line - 1)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    failed = runner.run(test, out=report.append, clear_globs=False).failed
    names.update(test.globs)
    assert not failed, "".join(report)


def check_shell(line: str) -> None:
    """Run a line of the command, or check that what it names exists."""
    words = shlex.split(line, comments=True)
    if "|" in words:
        make_parser().parse_args(words[words.index("bspforest") + 1 :])
        return
    match words:
        case ["bspforest", *arguments] if "--help" in arguments:
            with pytest.raises(SystemExit, match="0"):
                main(arguments)
        case ["bspforest", *arguments]:
            assert main(arguments) == 0, line
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M), line
        case ["pip", "install", *_, what]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            assert set(re.findall(r"\w+", what)) - {"bspforest"} <= set(extras), line
        case ["python", script, *_]:
            assert (ROOT / script).exists(), line
        case [("export" | "cd" | "git"), *_] | []:
            pass
        case _:
            pytest.fail(f"a line that is not checked: {line}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_a_page_runs(page, tmp_path, monkeypatch, capfd):
    blocks = read_blocks(page)
    unknown = {block.language for block in blocks} - LANGUAGES
    assert not unknown, f"code blocks of {page.name} in {unknown}; use one of {LANGUAGES}"
    if "river" in page.name and not find_spec("river"):
        pytest.skip("river is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict = {"__name__": "__page__"}
    for block in blocks:
        if block.is_skipped:
            for line in re.findall(r"^bspforest (.*)", block.code, re.M):
                make_parser().parse_args(shlex.split(line))
            continue
        if block.language == "python":
            run_python(block, page, names)
        elif block.language == "sh":
            capfd.readouterr()
            for line in block.code.replace("\\\n", " ").splitlines():
                check_shell(line)
        else:
            printed = [line.split() for line in capfd.readouterr().out.splitlines()]
            for words in map(str.split, block.code.splitlines()):
                assert any(words[:-1] == line[: len(words) - 1] for line in printed), " ".join(words)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_are_true(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if re.match(r"\w+:", target) or target.startswith("../gallery/") or target == "gallery/index":
            continue
        assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}, which does not exist"


def test_every_public_name_is_in_the_reference():
    """The API reference lists what the packages export; those that two packages export are listed once."""
    pages = " ".join(page.read_text() for page in (ROOT / "docs/api").glob("*.md"))
    listed = set(re.findall(r"^   (\w+)$", pages, re.M))
    packages = [bspforest, files, plotting, tables]
    if find_spec("distributed"):
        packages.append(importlib.import_module("bspforest.dask"))
    for package in packages:
        assert set(package.__all__) <= listed, set(package.__all__) - listed
    public = {name for name, value in vars(datasets).items() if name.startswith(("load_", "make_")) and callable(value)}
    assert public <= listed, public - listed


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
