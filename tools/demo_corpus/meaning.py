"""What a demo sentence means, before it is said in English and in German.

A Clause holds a verb, its phrases and its adjuncts. english.py and german.py say the same
clause, each with the word order, agreement and inflection of its own language.
"""

from __future__ import annotations

from dataclasses import dataclass

# Grammatical persons, in the order of both languages' conjugation tables.
ME, YOU, IT, WE, YOU_ALL, THEY, YOU_FORMAL = range(7)


@dataclass(frozen=True)
class Noun:
    """A noun in both languages; `gender` is m, f or n; a weak one takes -n in most cases."""

    en: str
    en_plural: str
    de: str
    gender: str
    de_plural: str
    weak: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Adjective:
    """An adjective; `stem` is what German endings are put on (teuer, but teur-e)."""

    en: str
    de: str
    stem: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verb:
    """A verb in both languages with its principal parts."""

    en: str
    en_past: str
    en_participle: str
    en_ing: str
    en_tail: str  # a preposition that stays with the verb: wait *for* the bus
    en_particle: str  # a particle that lets a pronoun pass: turn it *off*
    stative: bool  # never progressive: "I need", not "I'm needing"
    infinitive: str  # German, without the separable prefix
    prefix: str
    du: str
    er: str
    preterite: str
    participle: str
    with_sein: bool = False
    reflexive: bool = False


@dataclass(frozen=True)
class Common:
    """A phrase around a noun: the old house, twenty-one workers, a law of the government."""

    noun: Noun
    det: str = "the"
    plural: bool = False
    adjective: Adjective | None = None
    count: tuple[str, str] | None = None  # English and German, as words or digits
    of: Phrase | None = None  # a genitive in German
    relative: Clause | None = None

    @property
    def person(self):
        """The person the verb agrees with."""
        return THEY if self.plural else IT


@dataclass(frozen=True)
class Name:
    """A person's name, with a German case form for titles (Herr, Herrn)."""

    en: str
    de: str
    gender: str
    oblique: str = ""  # German outside the nominative, where it differs
    person: int = IT


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun; gender counts in the third person, a `thing` is "it" in English."""

    person: int
    gender: str = "m"
    thing: bool = False


@dataclass(frozen=True)
class Relative:
    """The relative pronoun that stands for a phrase inside its relative clause."""

    noun: Noun
    plural: bool = False

    @property
    def person(self):
        """The person the verb agrees with."""
        return THEY if self.plural else IT


@dataclass(frozen=True)
class Asked:
    """A question word in the place of a phrase; `de` maps the case to the German word."""

    en: str
    de: tuple[tuple[str, str], ...]
    person: int = IT


Phrase = Common | Name | Pronoun | Relative | Asked


@dataclass(frozen=True)
class Adjunct:
    """A part of a clause whose words do not depend on the clause: yesterday, in Berlin."""

    en: str
    de: str
    habitual: bool = False  # "every day" asks for the simple present in English


@dataclass(frozen=True)
class Clause:
    """One verb with all that belongs to it.

    `rest` is what stands last in a German clause before the verbs: a direction, a predicate
    or a prepositional object. `front` names the part that opens the clause (time, place,
    rest or opening); German then puts the subject behind the verb.
    """

    verb: Verb
    subject: Phrase
    accusative: Phrase | None = None
    dative: Phrase | None = None
    object_preposition: tuple[str, str] | None = None  # German preposition and case
    object: Phrase | None = None  # the phrase after object_preposition
    agent: Phrase | None = None  # by whom, in the passive
    rest: Adjunct | None = None
    time: Adjunct | None = None
    place: Adjunct | None = None
    adverb: Adjunct | None = None  # already, again: close to the verb
    opening: Adjunct | None = None  # maybe, according to the police: only ever in front
    front: str = ""
    tense: str = "present"  # present, past, perfect or future
    modal: str = ""
    negated: bool = False
    passive: bool = False
    simple: bool = False  # no progressive: "if you read this"
    talk: bool = False
