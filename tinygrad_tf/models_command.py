"""`tinygrad-tf models`: the named models, the parameters of one by part, and what changes when a field changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from .models.config import TransformerConfig
from .models.ledger import LETTERS, Row, count, ledger, multiplications
from .models.presets import MODELS, named, near


def listing() -> str:
    """All named models with their counts."""
    rows = [("model", "arrangement", "parameters", "published", "where")]
    for name, model in MODELS.items():
        published = "" if model.published is None else f"{model.published:,}"
        rows.append((name, model.config.arrangement, f"{count(model.config):,}", published, model.source))
    return "\n".join([*table(rows, right=(2, 3)), "", "Files are those on the Hugging Face hub.",
                      "tinygrad-tf models NAME shows where a model's parameters live; --set n_layer=24 what a field changes."])


def page(name: str, settings: Sequence[str] = ()) -> str:
    """The ledger of one model; with settings such as "n_layer=24", beside that of the changed one."""
    model = named(name)
    if not settings:
        return "\n".join([*_ledger(model.config), "", *_facts(model.config), f"published: {model.source}"])
    changes = dict(parsed(setting) for setting in settings)
    return "\n".join(_difference(model.config, replace(model.config, **changes), changes))


def parsed(setting: str) -> tuple[str, Any]:
    """("n_layer", 24) from "n_layer=24". ValueError for a field that is none, and for a value of the wrong kind."""
    types = get_type_hints(TransformerConfig)
    field, sign, text = setting.partition("=")
    if not sign or not text:
        raise ValueError(f"--set takes FIELD=VALUE, as in n_layer=24, not {setting!r}")
    if field not in types:
        raise ValueError(f"a model has no field {field!r}; {near(field, [spec.name for spec in fields(TransformerConfig)])}")
    kinds = get_args(types[field]) or (types[field],)
    words: dict[str, Any] = {"none": None} if type(None) in kinds else {}
    words |= {"true": True, "false": False} if bool in kinds else {}
    if text.lower() in words and str not in kinds:
        return field, words[text.lower()]
    for kind in (int, float, str):
        if kind in kinds:
            try:
                return field, kind(text.replace("_", "") if kind is int else text)
            except ValueError:
                pass
    wanted = {int: "a whole number", float: "a number", **dict.fromkeys((bool, type(None)), "")}
    names = [*filter(None, (wanted.get(kind) for kind in kinds)), *words]
    raise ValueError(f"{field} takes {' or '.join(names)}, not {text!r}")


def _ledger(config: TransformerConfig) -> list[str]:
    rows = ledger(config)
    total = sum(row.total for row in rows)
    cells = [("part", "formula", "each", "times", "parameters", "share")]
    for row in rows:
        share = f"{100 * row.total / total:.1f} %" if row.total else ""
        cells.append((row.part, shown(row), f"{row.each:,}", f"{row.times}" if row.times > 1 else "", f"{row.total:,}", share))
    cells.append(("in all", "", "", "", f"{total:,}", ""))
    return [*table(cells, right=(2, 3, 4, 5)), "", _letters(rows)]


def shown(row: Row) -> str:
    """The formula, with "none" for a part that has no parameters of its own."""
    return "none" if row.formula == "0" else row.formula


def _letters(rows: list[Row]) -> str:
    """What the letters of the formulas stand for, and their values; both, where two stacks differ."""
    values: dict[str, dict[int, None]] = {}
    for row in rows:
        for letter in LETTERS:
            if letter in row.formula.replace("²", "").split():
                values.setdefault(letter, {})[row.letters[letter]] = None
    said = [f"{letter} = {' and '.join(f'{n:,}' for n in values[letter])} ({LETTERS[letter]})" for letter in LETTERS
            if letter in values]  # fmt: skip
    return "; ".join(said)


def _facts(config: TransformerConfig) -> list[str]:
    """The rule of thumb, memory, and how cost grows with the length of the text."""
    c, total = config, count(config)
    blocks = sum(row.total for row in ledger(config) if row.in_blocks)
    facts = [f"blocks: {blocks:,}, {100 * blocks / total:.1f} % of all"]
    if c.arrangement != "encoder-decoder":
        rule = 12 * c.n_layer * c.n_embd**2
        facts[0] += f"; 12 N d² = {rule:,} for N = {c.n_layer} blocks"
    if c.n_kv_head is None or c.n_kv_head == c.n_head:
        facts.append(f"{c.n_head} heads, each d / {c.n_head} = {c.head_dim} wide: more or fewer of them change no count")
    else:
        facts.append(f"{c.n_head} heads of width {c.head_dim} share {c.n_kv_head} of keys and values")
    facts.append(f"memory: {size(4 * total)} in float32, {size(2 * total)} in two bytes a number")
    if c.arrangement != "encoder":
        facts.append(_kept(c))
    if c.arrangement == "encoder-decoder":
        return facts
    matrices, pairs = multiplications(config, 1)
    said = f"multiplications in the blocks for a text of n tokens: {matrices:,} n in matrices"
    longest = multiplications(config, c.block_size)[1]
    if c.attention == "linear":
        facts.append(f"{said}, {pairs:,} n between tokens")
    elif longest < pairs * c.block_size**2:
        facts.append(f"{said}, {longest // c.block_size:,} n between tokens, once the text is longer than the window")
    else:
        facts.append(f"{said}, {pairs:,} n² between tokens; the second is larger from n = {matrices // pairs + 1:,} on")
    return facts


def _kept(c: TransformerConfig) -> str:
    """What a cache keeps of a text."""
    heads = c.n_layer * (c.n_kv_head or c.n_head)
    if c.attention == "linear":
        kept = heads * c.head_dim * (c.head_dim + 1)
        return f"sums kept for a text, however long: {kept:,} numbers, {size(4 * kept)} in float32"
    kept, most = 2 * heads * c.head_dim, c.block_size if c.window is None else min(c.block_size, 2 * c.window)
    return (f"keys and values kept for each token: {kept:,} numbers, {size(4 * kept * most)} in float32 for {most:,} tokens"
            f"{'' if most == c.block_size else ', two windows, which is the most that is kept'}")  # fmt: skip


def size(n: int) -> str:
    """1,234,567 -> "1.2 MB\""""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= factor:
            return f"{n / factor:,.1f} {unit}"
    return f"{n} bytes"


def _difference(before: TransformerConfig, after: TransformerConfig, changes: dict[str, Any]) -> list[str]:
    """Both ledgers side by side; a part that only one of them has is empty in the other."""
    old, new = ({row.part: row for row in ledger(config)} for config in (before, after))
    cells: list[tuple[str, ...]] = [("part", "formula", "before", "after", "change")]
    for part in [*old, *(part for part in new if part not in old)]:
        a, b = old.get(part), new.get(part)
        formulas = dict.fromkeys(shown(row) for row in (a, b) if row)
        change = (b.total if b else 0) - (a.total if a else 0)
        cells.append((part, " -> ".join(formulas), *(f"{row.total:,}" if row else "" for row in (a, b)), signed(change)))
    totals = count(before), count(after)
    change = totals[1] - totals[0]
    share = f"; {100 * change / totals[0]:+.1f} %" if change else ""
    cells.append(("in all", "", *(f"{n:,}" for n in totals), signed(change)))
    said = ", ".join(f"{name} {_word(getattr(before, name))} -> {_word(value)}" for name, value in changes.items())
    return [f"{said}: {signed(change) or 'no'} parameters{share}", "", *table(cells, right=(2, 3, 4))]


def _word(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def signed(n: int) -> str:
    return f"{n:+,}" if n else ""


def table(rows: Sequence[Sequence[str]], right: Iterable[int]) -> list[str]:
    """Lines of columns under a head and a rule; the columns in `right` end at one place."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    right = set(right)
    lines = ["  ".join(cell.rjust(w) if i in right else cell.ljust(w)
                       for i, (cell, w) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]  # fmt: skip
    return [lines[0], "-" * max(map(len, lines[:1] + [line[: sum(widths[:-1])] for line in lines])), *lines[1:]]
