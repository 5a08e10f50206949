"""The documents as data: their fenced blocks, their tables, and what their examples print.

An example is a block of commands (`sh`) or of Python and, where a `text` block follows it directly, what it prints.
`python -m tests.docs.documents` runs the examples of all documents and puts what they print now into those blocks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent, indent

ROOT = Path(__file__).resolve().parents[2]
# Documents with examples, and whether each of their headings starts from a fresh copy of the facts.
EXAMPLES = {"README.md": False, "CONTRIBUTING.md": True, "docs/formulas.md": False}

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<content>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# Where an example of YAML belongs: `# profiles/a.yaml` or `# profiles/a.yaml, at the top of "rules"`.
PLACE = re.compile(
    r'# (?P<path>(?:planner|profiles)/\S+\.yaml)(?:, at the (?P<end>top|end)(?: of "(?P<key>\w+)")?)?'
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        language: what stands after the fence ("sh", "python", "yaml", "text"), or "".
        content: its lines without the document's indentation.
        heading: what it stands under.
        margin: the document's indentation.
        start, end: where the indented content begins and ends in the document.
        output: the block of text right after it, or None.
    """

    language: str
    content: str
    heading: str
    margin: str
    start: int
    end: int
    output: Block | None = None


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def documents() -> list[str]:
    """Every document, as paths from the project's root."""
    return [
        "README.md",
        "CONTRIBUTING.md",
        *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    ]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document in order; one that is another's output only as its `output`."""
    found: list[Block] = []
    heading, position = "", 0
    for match in FENCE.finditer(text):
        between = text[position : match.start()]
        position = match.end()
        for title in HEADING.finditer(between):
            heading = title[1]
        block = Block(
            match["language"],
            dedent(match["content"]),
            heading,
            match["indent"],
            match.start("content"),
            match.end("content"),
        )
        follows = found and not between.strip() and found[-1].language in {"sh", "python"}
        if follows and block.language == "text":
            found[-1] = replace(found[-1], output=block)
        else:
            found.append(block)
    return found


def tables(text: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Heading, column names and rows of each table of a document."""
    heading, rows = "", list[list[str]]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if rows:
            yield heading, rows[0], rows[2:]
            rows = []
        if title := HEADING.match(line):
            heading = title[1]


def put_in_place(block: Block, folder: Path) -> None:
    """Writes an example of YAML into `folder` where its first line says: a new file, or lines of one that is there."""
    first, _, content = block.content.partition("\n")
    place = PLACE.fullmatch(first)
    assert place, f"not a place: {first}"
    path = folder / place["path"]
    if not place["end"]:
        assert not path.exists(), f"{path} is there already"
        path.write_text(content, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    at = len(lines)
    if place["key"]:
        first_line = lines.index(f"{place['key']}:\n") + 1
        inside = range(first_line, len(lines))
        at = next((number for number in inside if re.match(r"[\w#]", lines[number])), len(lines))
        while not lines[at - 1].strip():
            at -= 1
        at = first_line if place["end"] == "top" else at
    lines.insert(at, content)
    path.write_text("".join(lines), encoding="utf-8")


def run(block: Block, folder: Path, environment: dict[str, str]) -> str:
    """What a block of commands or of Python prints when run in `folder`, errors included; it has to succeed.

    `python` is the one that runs the tests, sentences are in English, and the project can be imported.
    """
    shell = ["bash", "-euo", "pipefail", "-c"]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    settings = {"PATH": path, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    result = subprocess.run(
        [*(shell if block.language == "sh" else [sys.executable, "-c"]), block.content],
        cwd=folder,
        env=os.environ | settings | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, f"{block.content}\n{result.stdout[-4000:]}"
    return result.stdout


def calls_make(block: Block) -> bool:
    """True for a block whose commands all call make: they run for long, and have tests of their own."""
    return all(line.startswith(("make ", "#")) for line in block.content.splitlines() if line)


def copy_of_the_facts(folder: Path) -> dict[str, str]:
    """Copies facts and package into `folder`; gives the environment in which the copies are the ones that count."""
    for name in ("profiles", "planner"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return {"HEADROOM_PROFILES": str(folder / "profiles"), "PYTHONPATH": str(folder)}


def walked(
    found: list[Block], folder: Path, environment: dict[str, str]
) -> Iterator[tuple[Block, str]]:
    """Puts the YAML of some blocks in place and runs their commands and Python, in order; each with what it prints."""
    for block in found:
        if block.language == "yaml":
            put_in_place(block, folder)
        elif block.language in {"sh", "python"} and not calls_make(block):
            yield block, run(block, folder, environment)


def headings(document: str) -> list[str]:
    """The headings of a document that have blocks under them."""
    return list(dict.fromkeys(block.heading for block in blocks(read(document))))


def results(document: str, heading: str | None = None) -> list[tuple[Block, str]]:
    """Every example of a document with what it prints now.

    Args:
        heading: only the examples under it, from a fresh copy of the facts; None: all, in one folder.
    """
    found = [block for block in blocks(read(document)) if heading in (None, block.heading)]
    with tempfile.TemporaryDirectory() as folder:
        environment = copy_of_the_facts(Path(folder)) if heading else {}
        return list(walked(found, Path(folder), environment))


def rewritten(document: str) -> str:
    """The document with what its examples print now."""
    parts = headings(document) if EXAMPLES[document] else [None]
    text = read(document)
    printed = [result for part in parts for result in results(document, part)]
    for block, output in sorted(printed, key=lambda result: result[0].start, reverse=True):
        if block.output:
            margin = block.output.margin
            text = text[: block.output.start] + indent(output, margin) + text[block.output.end :]
    return text


def main() -> None:
    """Writes what the examples print now into the documents, and says which changed."""
    for document in EXAMPLES:
        text = rewritten(document)
        print(f"{document}: {'as it was' if text == read(document) else 'rewritten'}")
        (ROOT / document).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
