"""Pages as a reader of Markdown sees them: links, anchors, and commands in blocks of code."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
_READER = MarkdownIt("commonmark").enable("table")
_ENDS = {"|", "||", "&&", ";", "&", "<"}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code: the language that stands at a fence (empty for an indented block), and its lines."""

    language: str
    lines: tuple[str, ...]


def pages() -> list[Path]:
    """Every page of the project that people read."""
    tops = ["README.md", *(f"{folder}/**/*.md" for folder in ("alert_rules", "deploy", "docs", "grafana"))]
    return sorted(path for pattern in tops for path in ROOT.glob(pattern))


def _tokens(path: Path) -> list[Token]:
    return _READER.parse(path.read_text(encoding="utf-8"))


def _inner(path: Path) -> Iterator[Token]:
    for token in _tokens(path):
        yield from token.children or ()


def links(path: Path) -> list[str]:
    """Targets of links and pictures, in order."""
    found = [token.attrGet("href") or token.attrGet("src") for token in _inner(path)]
    return [str(target) for target in found if target]


def anchors(path: Path) -> set[str]:
    """What may stand behind # in a link to this page: the headings, as code hosts write them."""
    tokens, seen, found = _tokens(path), Counter[str](), set()
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            text = "".join(child.content for child in token.children or () if child.type in {"text", "code_inline"})
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def blocks(path: Path) -> list[Block]:
    """All blocks of code; a line that ends in a backslash goes on in the next."""
    found = []
    for token in _tokens(path):
        if token.type in {"fence", "code_block"}:
            text = re.sub(r"\\\n\s*", "", token.content)
            found.append(Block(token.info.strip(), tuple(line for line in text.splitlines() if line.strip())))
    return found


def codes(path: Path) -> list[str]:
    """All code within lines of text, in order."""
    return [token.content for token in _inner(path) if token.type == "code_inline"]


def words(line: str) -> list[str]:
    """Words of a shell's command line without its comment, prompt, variables before it, and all behind a pipe or redirection."""
    try:
        found = shlex.split(line.removeprefix("$ "), comments=True)
    except ValueError:
        return []
    while found and re.fullmatch(r"[A-Z_]+=.*", found[0]):
        found.pop(0)
    ends = [place for place, word in enumerate(found) if word in _ENDS or re.match(r"\d?>", word)]
    return found[: ends[0]] if ends else found


def tables(path: Path) -> list[list[str]]:
    """Lines of each table, as they stand in the file: the head, the line below it, the rows."""
    lines = path.read_text(encoding="utf-8").splitlines()
    spans = [token.map for token in _tokens(path) if token.type == "table_open" and token.map]
    return [[line.strip() for line in lines[begin:end]] for begin, end in spans]
