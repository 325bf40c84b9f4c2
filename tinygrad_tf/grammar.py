"""The embedded corpus: small stories written by a probabilistic grammar whose entropy is known exactly.

A model that has learned all there is to learn about these stories gives every choice the probability the
grammar gives it, and is certain of everything else. Its loss is then the grammar's entropy per character.
On average no model can do better, so a loss curve can be drawn against that floor.

The stories are plain data:

- `RULES`: a name and the texts it can become, equally likely (a list) or with weights (a dictionary).
- `TABLES`: a name and its rows, equally likely. Choosing writes the first field and remembers the row.
- In a text, `{name}` chooses afresh from the rule or table of that name. `{table.field}` repeats the table's
  last choice: `{animal}` writes "fox", `{animal.name}` says "fox" again, `{person.they}` says "she" or "he".

The entropy is exact for two reasons. Weights never depend on an earlier choice, so expectations add up part
by part. And no story can be written in two ways, so the entropy of the choices is the entropy of the text;
`tests/text/test_grammar.py` proves that on the automaton of the grammar. The same file checks that whatever
is repeated was last mentioned within `REACH` characters: a model that sees so far back sees all it needs.
"""

import math
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np

REACH = 64

RULES: dict[str, list[str] | dict[str, int]] = {
    "story": ["{opening} {present} {ending}\n\n"],
    "opening": {
        "{person} {met} {looks} {colour} {animal} {near} the {place}.": 3,
        "One {weather} day {person} {met} {looks} {colour} {animal}.": 1,
    },
    "present": [
        "The {animal.name} was {unwell}, so {person.they} {made} it a {gift} of {feel} {colour} {stuff}."
    ],
    "ending": ["At {time} it {gift.used} the {gift.name} and {sang} {how} till {time.next}."],
    "met": ["met", "saw", "fed", "led", "kept", "knew"],
    "looks": ["a big", "a fat", "a shy", "a sly", "a wet", "an odd", "an old", "a tiny"],
    "colour": ["red", "blue", "green", "pink", "white", "grey", "black", "gold"],
    "near": ["by", "near", "past"],
    "place": ["barn", "door", "gate", "hill", "inn", "lake", "mill", "oak", "pond", "road", "sea", "wall"],
    "weather": ["calm", "dull", "mild", "wet"],
    "unwell": ["cold", "ill", "lost", "poor", "sad", "sore"],
    "made": ["made", "gave", "lent", "found", "bought", "left"],
    "feel": ["fine", "new", "old", "rough", "soft", "thin"],
    "stuff": ["cork", "jute", "paper", "silk", "tin", "wool"],
    "sang": ["danced", "hummed", "laughed", "ran", "sang", "slept"],
    "how": ["alone", "gladly", "loudly", "quietly", "slowly", "well"],
}


def _rows(fields: str, rows: str) -> list[dict[str, str]]:
    return [dict(zip(fields.split(), row.split(), strict=True)) for row in rows.split(",")]


TABLES: dict[str, list[dict[str, str]]] = {
    "person": _rows("name they", "Ada she, Eva she, Fay she, Ida she, Joy she, Mia she, Pia she, Zoe she,"
                                 "Ben he, Gus he, Hal he, Ken he, Leo he, Ned he, Sam he, Tom he"),
    "animal": _rows("name", "bee, cat, dog, elk, fox, goat, hen, lamb, mole, owl, pig, rat, toad, wolf"),
    "gift": _rows("name used", "bell rang, coat wore, drum beat, flag waved, gown wore, harp played,"
                               "kite flew, lamp lit, mask wore, ring wore, sled rode, top spun"),
    "time": _rows("name next", "dawn noon, noon dusk, dusk night, night dawn"),
}


class Choice(NamedTuple):
    """`{name}` in a text: choose from the rule or table `name`."""

    name: str


class Recall(NamedTuple):
    """`{table.field}` in a text: a field of the row last chosen from `table`."""

    table: str
    field: str


Item: TypeAlias = str | Choice | Recall
Row: TypeAlias = Mapping[str, str]


class Option(NamedTuple):
    """One alternative of a choice. `row` is what the story remembers when the choice is made from a table."""

    probability: float
    items: tuple[Item, ...]
    row: Row | None = None


class Reading(NamedTuple):
    """One way to have written a text so far: its share among all ways, what is still to be written, as a
    linked list (item, (item, ... None)), and the rows remembered."""

    share: float
    rest: Any
    memory: Mapping[str, Row]


class Grammar:
    """Rules and tables as described at the top of this file.

    Raises ValueError, naming the rule, for an unknown name, an empty text, a weight that is not positive, a
    rule that contains itself, or a field repeated before its table has been chosen from.
    """

    def __init__(
        self,
        rules: Mapping[str, Sequence[str] | Mapping[str, float]],
        tables: Mapping[str, Sequence[Row]],
        start: str = "story",
    ):
        self.start = start
        self.tables = tables
        self.options: dict[str, list[Option]] = {}
        for name, rule in rules.items():
            weights = rule if isinstance(rule, Mapping) else dict.fromkeys(rule, 1)
            if not all(weight > 0 for weight in weights.values()):
                raise ValueError(f"rule {name!r} has a weight that is not positive")
            total = sum(weights.values())
            self.options[name] = [Option(weight / total, _items(text)) for text, weight in weights.items()]
        for name, rows in tables.items():
            self.options[name] = [Option(1 / len(rows), (next(iter(row.values())),), row) for row in rows]
        self._cumulative = {
            name: list(accumulate(option.probability for option in options))
            for name, options in self.options.items()
        }
        self._check(start, frozenset(), ())

    def _check(self, name: str, chosen: frozenset[str], inside: tuple[str, ...]) -> frozenset[str]:
        """The tables certainly chosen from once `name` is written; raises ValueError for a faulty rule."""
        if name in inside:
            raise ValueError(f"rule {name!r} contains itself")
        if not self.options.get(name):
            raise ValueError(f"{name!r}, used in {inside[-1] if inside else 'start'!r}, is no rule or table")
        after = []
        for option in self.options[name]:
            now = chosen if option.row is None else chosen | {name}
            if not option.items or "" in option.items:
                raise ValueError(f"rule {name!r} has an empty text")
            for item in option.items:
                if isinstance(item, Choice):
                    now = self._check(item.name, now, (*inside, name))
                elif isinstance(item, Recall):
                    if item.table not in now or not all(r.get(item.field) for r in self.tables[item.table]):
                        again = f"{{{item.table}.{item.field}}}"
                        raise ValueError(f"rule {name!r} repeats {again}, which was not chosen before")
            after.append(now)
        return frozenset.intersection(*after)

    def story(self, generator: np.random.Generator) -> str:
        """One story, with the blank line that separates it from the next."""
        written: list[str] = []
        memory: dict[str, Row] = {}
        pending: list[Item] = [Choice(self.start)]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                written.append(item)
            elif isinstance(item, Recall):
                written.append(memory[item.table][item.field])
            else:
                options = self.options[item.name]
                place = bisect(self._cumulative[item.name], generator.random())
                option = options[min(place, len(options) - 1)]  # rounding may leave the last sum below one
                if option.row is not None:
                    memory[item.name] = option.row
                pending.extend(reversed(option.items))
        return "".join(written)

    def text(self, n_chars: int, seed: int) -> str:
        """Whole stories, as many as it takes to reach `n_chars` characters; the same for the same seed."""
        generator = np.random.Generator(np.random.PCG64(seed))
        stories: list[str] = []
        length = 0
        while length < n_chars:
            stories.append(self.story(generator))
            length += len(stories[-1])
        return "".join(stories)

    def expectation(self, item: Item | None = None) -> tuple[float, float]:
        """(entropy in nats, length in characters) to expect of `item`, by default of a story.

        H(rule) = sum over its texts of p (-ln p + H of the parts). A repeated field adds length but no
        entropy; its length is that of a fresh row, because no weight depends on which row was chosen.
        """
        if isinstance(item, str):
            return 0.0, float(len(item))
        if isinstance(item, Recall):
            rows = self.tables[item.table]
            return 0.0, math.fsum(len(row[item.field]) for row in rows) / len(rows)
        entropy = length = 0.0
        for option in self.options[item.name if item else self.start]:
            parts = [self.expectation(part) for part in option.items]
            entropy += option.probability * (math.fsum(h for h, _ in parts) - math.log(option.probability))
            length += option.probability * math.fsum(n for _, n in parts)
        return entropy, length

    def entropy_per_character(self) -> float:
        """Nats per character of an endless text: expected entropy of a story over its expected length.

        Divide by ln 2 for bits.
        """
        entropy, length = self.expectation()
        return entropy / length

    def readings(self, text: str) -> Iterator[tuple[float, list[Reading]]]:
        """After each character of `text`, which begins with a story: the character's probability given all
        before it, and every way to have written the text so far. From the first character that no story
        can have there: probability 0 and no readings.
        """
        readings = [Reading(1.0, None, {})]
        for character in text:
            readings = [
                Reading(share, (first[1:], rest) if len(first) > 1 else rest, memory)
                for share, (first, rest), memory in self._ready(readings)
                if first[0] == character
            ]
            probability = math.fsum(reading.share for reading in readings)
            readings = [reading._replace(share=reading.share / probability) for reading in readings]
            yield probability, readings

    def _ready(self, readings: list[Reading]) -> Iterator[Reading]:
        """The readings, split at every choice until each has text to write next."""
        pending = list(readings)
        while pending:
            share, rest, memory = pending.pop()
            item, after = rest if rest is not None else (Choice(self.start), None)
            if isinstance(item, str):
                yield Reading(share, rest, memory)
            elif isinstance(item, Recall):
                pending.append(Reading(share, (memory[item.table][item.field], after), memory))
            else:
                for option in self.options[item.name]:
                    then = after
                    for part in reversed(option.items):
                        then = (part, then)
                    now = memory if option.row is None else {**memory, item.name: option.row}
                    pending.append(Reading(share * option.probability, then, now))

    def log_probability(self, text: str) -> float:
        """ln of the probability that just these stories are written, one after the other.

        -inf for a text that is not made of whole stories.
        """
        total, readings = 0.0, [Reading(1.0, None, {})]
        for probability, readings in self.readings(text):
            if not readings:
                return -math.inf
            total += math.log(probability)
        complete = math.fsum(reading.share for reading in readings if reading.rest is None)
        return total + math.log(complete) if complete else -math.inf

    def surprisals(self, text: str) -> np.ndarray:
        """-ln p of each character given all before it, (len(text),); inf from where no story reads like this.

        `text` begins with a story. The mean over a long text tends to `entropy_per_character()`.
        """
        return np.array([-math.log(p) if p else math.inf for p, _ in self.readings(text)])

    def next_character(self, text: str) -> dict[str, float]:
        """The exact distribution of the character after `text`, which begins with a story, ends anywhere.

        Raises ValueError where no story begins like this.
        """
        readings = [Reading(1.0, None, {})]
        for at, (_, readings) in enumerate(self.readings(text)):
            if not readings:
                raise ValueError(f"no story has {text[at]!r} at position {at}")
        distribution: dict[str, float] = {}
        for share, (first, _), _ in self._ready(readings):
            distribution[first[0]] = distribution.get(first[0], 0.0) + share
        return dict(sorted(distribution.items()))


def _items(text: str) -> tuple[Item, ...]:
    """'At {time} the' -> ('At ', Choice('time'), ' the')."""
    items: list[Item] = []
    for piece in re.split(r"(\{\w+(?:\.\w+)?\})", text):
        if piece.startswith("{"):
            name, dot, field = piece[1:-1].partition(".")
            items.append(Recall(name, field) if dot else Choice(name))
        elif piece:
            items.append(piece)
    return tuple(items)


STORIES = Grammar(RULES, TABLES)
story = STORIES.story
text = STORIES.text
entropy_per_character = STORIES.entropy_per_character
log_probability = STORIES.log_probability
surprisals = STORIES.surprisals
next_character = STORIES.next_character
