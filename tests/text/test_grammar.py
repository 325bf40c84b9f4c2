"""The embedded corpus: its entropy is what the definition says, and no story can be written in two ways."""

import math
import re
from itertools import product

import numpy as np
import pytest

from tinygrad_tf import grammar
from tinygrad_tf.grammar import REACH, RULES, STORIES, TABLES, Choice, Grammar, Recall

FIRST = (
    "Ada met an old gold mole past the mill. The mole was sad, so she made it a sled of fine grey jute. "
    "At dusk it rode the sled and hummed loudly till night.\n\n"
)

SMALL = Grammar(
    {
        "story": {"{who} {runs}.\n": 3, "{who} {size}{thing}, {who.they} had {thing.name}.\n": 1},
        "runs": {"ran": 1, "ran {far}": 2},
        "far": ["far", "away, away"],
        "size": ["saw a ", "saw an odd "],
    },
    {
        "who": [{"name": "Ada", "they": "she"}, {"name": "Al", "they": "he"}, {"name": "Bo", "they": "he"}],
        "thing": [{"name": "cup"}, {"name": "kite"}],
    },
)


# ---------------------------------------------------------------------------------------- independent helpers


def every_story(grammar):
    """(story, probability) for each derivation of a small grammar, by walking all choices."""

    def write(items, text, p, memory):
        if not items:
            yield text, p
            return
        item, rest = items[0], items[1:]
        if isinstance(item, str):
            yield from write(rest, text + item, p, memory)
        elif isinstance(item, Recall):
            yield from write(rest, text + memory[item.table][item.field], p, memory)
        else:
            for option in grammar.options[item.name]:
                now = {**memory, item.name: option.row} if option.row else memory
                yield from write([*option.items, *rest], text, p * option.probability, now)

    yield from write([Choice(grammar.start)], "", 1.0, {})


def clashes(grammar):
    """What two derivations can have in common: "same" if they can write the same story, "prefix" if one can
    write the beginning of the other's.

    The automaton's states are stacks of items still to be written. A repeated field may be any of its table's
    words here: that only adds derivations, so what holds for these holds for the stories. Pairs of states
    that have read the same characters on different ways are followed to their ends.
    """

    def moves(stack):
        """(character, next state) of each way to go on; two ways stay two even if they lead to the same."""
        if stack is None:
            return
        item, rest = stack
        if isinstance(item, str):
            yield item[0], ((item[1:], rest) if len(item) > 1 else rest)
        elif isinstance(item, Recall):
            for word in sorted({row[item.field] for row in grammar.tables[item.table]}):
                yield from moves((word, rest))
        else:
            for option in grammar.options[item.name]:
                inner = rest
                for part in reversed(option.items):
                    inner = (part, inner)
                yield from moves(inner)

    found, seen = set(), set()
    pending = [((Choice(grammar.start), None),)]
    while pending:
        state = pending.pop()
        if state in seen:
            continue
        seen.add(state)
        if len(state) == 1:
            ways = list(moves(state[0]))
            pending += [(after,) for _, after in ways]
            pending += [(a, b) for i, (c, a) in enumerate(ways) for d, b in ways[:i] if c == d]
        elif state == (None, None):
            found.add("same")
        elif None in state:
            found.add("prefix")
        else:
            pending += [(a, b) for (c, a), (d, b) in product(moves(state[0]), moves(state[1])) if c == d]
    return found


def stories_of(text):
    return [story + "\n\n" for story in text.split("\n\n")[:-1]]


# ------------------------------------------------------------------------------------------ the exact numbers


def test_a_small_grammar_enumerated_sums_to_one_and_has_the_entropy_and_length_computed():
    stories = list(every_story(SMALL))
    probabilities = np.array([p for _, p in stories])
    assert len({text for text, _ in stories}) == len(stories) == 3 * (1 + 2) + 3 * 2 * 2
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    entropy, length = SMALL.expectation()
    assert entropy == pytest.approx(-(probabilities * np.log(probabilities)).sum(), rel=1e-12)
    assert length == pytest.approx(sum(len(text) * p for text, p in stories), rel=1e-12)
    assert SMALL.entropy_per_character() == pytest.approx(entropy / length, rel=1e-12)


def test_the_log_probability_of_each_enumerated_story_is_that_of_its_derivation():
    for text, p in every_story(SMALL):
        assert SMALL.log_probability(text) == pytest.approx(math.log(p), rel=1e-12)


def test_the_log_probability_adds_up_over_all_derivations_of_an_ambiguous_text():
    twice = Grammar({"story": ["{a}b.", "a{b}."], "a": ["a", "c"], "b": ["b", "c"]}, {})
    assert twice.log_probability("ab.") == pytest.approx(math.log(0.5), rel=1e-12)
    assert twice.log_probability("cb.") == pytest.approx(math.log(0.25), rel=1e-12)


def test_the_entropy_of_the_stories_is_the_sum_of_its_choices_written_out_by_hand():
    kinds = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    opening = kinds + math.log(16 * 6 * 8 * 8 * 14) + 0.75 * math.log(3 * 12) + 0.25 * math.log(4)
    present = math.log(6 * 6 * 12 * 6 * 8 * 6)
    ending = math.log(4 * 6 * 6)
    assert STORIES.expectation()[0] == pytest.approx(opening + present + ending, rel=1e-12)
    assert grammar.entropy_per_character() == pytest.approx(0.2086, abs=5e-5)


def test_sampled_stories_have_the_expected_length_and_minus_log_probability():
    stories = stories_of(grammar.text(100_000, seed=1))
    entropy, length = STORIES.expectation()
    for values, expected in (
        ([-grammar.log_probability(story) for story in stories[:300]], entropy),
        ([len(story) for story in stories], length),
    ):
        error = np.std(values) / math.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 4 * error
        assert error < expected / 100  # otherwise the line above says little


def test_each_choice_of_a_rule_occurs_as_often_as_its_weight_says():
    stories = stories_of(grammar.text(300_000, seed=2))
    share = np.mean([story.startswith("One ") for story in stories])
    assert abs(share - 0.25) < 4 * math.sqrt(0.25 * 0.75 / len(stories))


def test_surprisals_sum_to_the_log_probability_over_several_stories():
    text = grammar.text(1500, seed=3)
    values = grammar.surprisals(text)
    assert values.shape == (len(text),)
    assert values.sum() == pytest.approx(-grammar.log_probability(text), rel=1e-12)
    assert values.sum() == pytest.approx(-sum(map(grammar.log_probability, stories_of(text))), rel=1e-12)


def test_a_text_with_a_fault_has_no_probability_and_infinite_surprisal_from_there_on():
    wrong = FIRST.replace("so she", "so he")
    at = wrong.index("he made")
    values = grammar.surprisals(wrong)
    assert np.isfinite(values[:at]).all()
    assert np.isinf(values[at:]).all()
    other = FIRST.replace("rode the sled", "rode the drum")
    for text in (wrong, other, FIRST[:-1], FIRST + "A", "\n" + FIRST):
        assert grammar.log_probability(text) == -math.inf
    assert grammar.log_probability("") == 0  # no story at all: nothing was chosen


def test_the_distribution_of_the_next_character():
    text = FIRST + FIRST
    for at, surprisal in enumerate(grammar.surprisals(text)):
        distribution = grammar.next_character(text[:at])
        assert math.fsum(distribution.values()) == pytest.approx(1, abs=1e-12)
        assert distribution[text[at]] == pytest.approx(math.exp(-surprisal), rel=1e-12)
    assert grammar.next_character("")["O"] == pytest.approx(0.25)
    met = "Ada met a sly red fox by the mill. The "
    assert grammar.next_character(met) == pytest.approx({"f": 1})
    assert grammar.next_character(met + "fox was ill, so ") == pytest.approx({"s": 1})
    assert grammar.next_character("Ben met a")[" "] == pytest.approx(6 / 8)
    with pytest.raises(ValueError, match="no story has 'X' at position 4"):
        grammar.next_character("Ada Xet")


# ------------------------------------------------------------------------------------------- one reading only


def test_no_story_can_be_written_in_two_ways_and_none_begins_another():
    assert clashes(STORIES) == set()
    assert clashes(SMALL) == set()


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"story": ["{a}{b}."], "a": ["x", "xy"], "b": ["yz", "z"]}, {"same"}),
        ({"story": ["{a}."], "a": ["{b}", "x"], "b": ["x", "y"]}, {"same"}),
        ({"story": ["x", "xy"]}, {"prefix"}),
        ({"story": ["{a}."], "a": ["x", "xy"]}, set()),
    ],
)
def test_the_proof_above_finds_ambiguity_where_there_is_some(rules, expected):
    assert clashes(Grammar(rules, {})) == expected


def test_the_reader_finds_exactly_one_derivation_of_each_sampled_story():
    for story in stories_of(grammar.text(15_000, seed=4)):
        *_, (_, readings) = STORIES.readings(story)
        assert len(readings) == 1
        assert readings[0].rest is None


# --------------------------------------------------------------------------------------- what the stories are


def test_the_stories_are_the_same_for_the_same_seed_on_every_machine():
    assert grammar.text(1, seed=0) == FIRST
    assert grammar.story(np.random.Generator(np.random.PCG64(0))) == FIRST
    assert grammar.text(5000, seed=7) == grammar.text(5000, seed=7) != grammar.text(5000, seed=8)
    assert grammar.text(5000, seed=7).startswith(grammar.text(3000, seed=7))


@pytest.mark.parametrize("n_chars", [0, 1, len(FIRST), len(FIRST) + 1, 4000])
def test_a_text_is_the_fewest_whole_stories_that_reach_its_length(n_chars):
    text = grammar.text(n_chars, seed=0)
    stories = stories_of(text)
    assert "".join(stories) == text
    assert len(text) >= n_chars
    assert len("".join(stories[:-1])) < max(n_chars, 1)


def test_who_what_and_when_agree_in_every_story():
    pattern = re.compile(
        r"(?:One \w+ day )?(?P<who>\w+) \w+ an? \w+ \w+ (?P<animal>\w+)(?: \w+ the \w+)?\. "
        r"The (?P<animal2>\w+) was \w+, so (?P<they>she|he) \w+ it a (?P<gift>\w+) of \w+ \w+ \w+\. "
        r"At (?P<time>\w+) it (?P<used>\w+) the (?P<gift2>\w+) and \w+ \w+ till (?P<next>\w+)\.\n\n"
    )
    women = {"Ada", "Eva", "Fay", "Ida", "Joy", "Mia", "Pia", "Zoe"}
    worn = {"coat", "gown", "mask", "ring"}
    used = {row["name"]: row["used"] for row in TABLES["gift"]}
    later = {"dawn": "noon", "noon": "dusk", "dusk": "night", "night": "dawn"}
    for story in stories_of(grammar.text(60_000, seed=5)):
        match = pattern.fullmatch(story)
        assert match, story
        assert match["animal"] == match["animal2"]
        assert match["they"] == ("she" if match["who"] in women else "he")
        assert match["gift"] == match["gift2"]
        assert match["used"] == used[match["gift"]]
        assert (match["used"] == "wore") == (match["gift"] in worn)
        assert match["next"] == later[match["time"]]
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", story), story


def test_the_alphabet_is_small_and_plain():
    characters = set(grammar.text(100_000, seed=6))
    assert 30 <= len(characters) <= 46
    assert all(c == "\n" or " " <= c <= "~" for c in characters)


def test_whatever_is_repeated_was_last_mentioned_within_reach():
    """In the longest wording, no more than REACH characters lie between the first letter of a mention and the
    first letter of its repetition; "she" counts as a mention of the pronoun, not of the name."""

    def plain(name):
        return all("{" not in text for text in RULES[name])

    def longest(name):
        if name in TABLES:
            return max(len(next(iter(row.values()))) for row in TABLES[name])
        return max(len(text) for text in RULES[name])

    def skeletons(items):
        """All orders of [(table or None, field or None, longest length)]; plain rules are one part."""
        if not items:
            yield []
            return
        item, rest = items[0], items[1:]
        if isinstance(item, Choice) and not (item.name in TABLES or plain(item.name)):
            for option in STORIES.options[item.name]:
                yield from skeletons([*option.items, *rest])
            return
        if isinstance(item, str):
            part = (None, None, len(item))
        elif isinstance(item, Recall):
            part = (item.table, item.field, max(len(row[item.field]) for row in TABLES[item.table]))
        else:
            part = (item.name if item.name in TABLES else None, None, longest(item.name))
        for others in skeletons(rest):
            yield [part, *others]

    distances = []
    for skeleton in skeletons([Choice("story")]):
        at, mentioned = 0, {}
        for table, field, length in skeleton:
            if field:
                distances.append(at - max(mentioned[table, None], mentioned.get((table, field), 0)))
            if table:
                mentioned[table, field] = at
            at += length
    assert len(distances) == 2 * 5
    assert max(distances) == REACH


# -------------------------------------------------------------------------------------------- faulty grammars


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"story": ["{a}"], "a": ["b{story}"]}, "'story' contains itself"),
        ({"story": ["{a}"]}, "'a', used in 'story', is no rule or table"),
        ({"other": ["x"]}, "'story', used in 'start', is no rule or table"),
        ({"story": ["{a}"], "a": []}, "'a', used in 'story'"),
        ({"story": ["{a}"], "a": ["x", ""]}, "'a' has an empty text"),
        ({"story": {"x": 1, "y": 0}}, "'story' has a weight that is not positive"),
        ({"story": ["{t.name} {t}"]}, r"'story' repeats \{t\.name\}"),
        ({"story": ["{t} {t.age}"]}, r"'story' repeats \{t\.age\}"),
        ({"story": ["{a} {t.name}"], "a": ["{t}", "x"]}, r"'story' repeats \{t\.name\}"),
    ],
)
def test_a_faulty_grammar_is_refused_by_the_name_of_the_rule(rules, message):
    with pytest.raises(ValueError, match=message):
        Grammar(rules, {"t": [{"name": "x"}, {"name": "y"}]})
