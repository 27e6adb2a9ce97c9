"""Chance: a dice whose throws are the same on every machine, and the phrases it chooses."""

from __future__ import annotations

import random
import re

from . import english, german, numerals, words
from .meaning import IT, THEY, Adjunct, Clause, Common, Pronoun


class Dice:
    """Choices that are a pure function of the seed.

    Only `random()` is used: Python promises its sequence for a seed across versions, which it
    does not for `choice` and `shuffle`.
    """

    def __init__(self, seed):
        """Start the sequence of a whole-number seed."""
        self._random = random.Random(seed).random

    def below(self, n):
        """A whole number from 0 to n - 1."""
        return int(self._random() * n)

    def between(self, low, high):
        """A whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def chance(self, probability):
        """Whether something of this probability happens."""
        return self._random() < probability

    def pick(self, items):
        """One of the items, all equally likely."""
        return items[self.below(len(items))]

    def weighted(self, table):
        """One of the keys of ((key, weight), ...)."""
        point = self._random() * sum(weight for _, weight in table)
        for key, weight in table:
            point -= weight
            if point < 0:
                return key
        return table[-1][0]


def sentence(text, mark="."):
    """Clean up commas and blanks, begin with a capital, end with a mark."""
    text = re.sub(r"(\s*,)+", ",", text).strip()
    text = re.sub(r"\s+", " ", text).rstrip(",")
    return text[0].upper() + text[1:] + mark


def pair(en, de, mark="."):
    """An English and a German sentence with the same final mark."""
    return sentence(en, mark), sentence(de, mark)


def statement(clause, *, before=("", "")):
    """A main clause in both languages, perhaps behind a comma-separated opening."""
    en, de = english.clause(clause), german.clause(clause)
    if before[0]:
        return f"{before[0]}, {en}", f"{before[1]}, {de}"
    return en, de


def question(clause):
    """A question in both languages: verb first, or second behind the question word."""
    moved = clause.front or any(
        type(part).__name__ == "Asked"
        for part in (clause.subject, clause.accusative, clause.dative, clause.object)
    )
    order = "second" if moved else "first"
    return english.clause(clause, question=True), german.clause(clause, order=order)


def subordinate(en_word, de_word, clause):
    """A clause behind a conjunction; German puts its verb last."""
    return (
        f"{en_word} {english.clause(clause)}",
        f"{de_word} {german.clause(clause, order='final')}",
    )


def behind(opening, clause):
    """A main clause behind a subordinate one, which counts as German's first place."""
    en, de = opening
    return f"{en}, {english.clause(clause)}", f"{de}, {german.clause(clause, order='first')}"


def where(en, de, item, case):
    """Return a prepositional phrase, such as "on" and "auf" with a table in the dative."""
    return Adjunct(f"{en} {english.phrase(item)}", german.prepositional(de, item, case))


def in_city(dice):
    """In a city or, now and then, in a country."""
    en, de = dice.pick(words.COUNTRIES if dice.chance(0.15) else words.CITIES)
    return Adjunct(f"in {en}", f"in {de}")


def to_city(dice):
    """To a city, which German says with nach."""
    en, de = dice.pick(words.COUNTRIES if dice.chance(0.25) else words.CITIES)
    return Adjunct(f"to {en}", f"nach {de}")


def on_day(dice):
    """On a day of the week."""
    en, de = dice.pick(words.DAYS)
    return Adjunct(f"on {en}", f"am {de}")


def in_month(dice):
    """In a month."""
    en, de = dice.pick(words.MONTHS)
    return Adjunct(f"in {en}", f"im {de}")


def count(dice, *, low=2, high=99, digits=0.3):
    """A number in English and German, mostly in words."""
    n = dice.between(low, high)
    if n > 99 or dice.chance(digits):
        return numerals.english_digits(n), numerals.german_digits(n)
    return numerals.english(n), numerals.german(n)


def with_adjective(dice, item, probability):
    """The phrase with an adjective that fits its noun, at this probability."""
    if not dice.chance(probability):
        return item
    fitting = words.fitting(item.noun)
    if not fitting:
        return item
    return Common(item.noun, item.det, item.plural, dice.pick(fitting), item.count, item.of)


def fill(frame, *, subject, objects, talk):
    """A clause from a verb's frame and phrases for its object slots, in the frame's order."""
    parts = {}
    for (slot, _), phrase in zip(frame.objects, objects, strict=True):
        if slot == "acc":
            parts["accusative"] = phrase
        elif slot == "dat":
            parts["dative"] = phrase
        else:
            parts["object_preposition"] = tuple(slot.split("+"))
            parts["object"] = phrase
    return Clause(frame.verb, subject, talk=talk, **parts)


def refer(item, *, thing):
    """The pronoun that refers back to a phrase, with the gender of its German noun."""
    if item.person == THEY:
        return Pronoun(THEY)
    gender = item.noun.gender if isinstance(item, Common) else item.gender
    return Pronoun(IT, gender, thing)
