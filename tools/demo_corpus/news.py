"""Sentences of the news: organisations, reports, figures, and interviews in the formal you."""

from __future__ import annotations

from dataclasses import replace

from . import choice, english, german, nouns, verbs, words
from .choice import pair, statement
from .meaning import (
    YOU_FORMAL,
    Adjunct,
    Asked,
    Clause,
    Common,
    Name,
    Pronoun,
    Relative,
)
from .news_parts import (
    PEOPLE,
    actor,
    event,
    event_of,
    frames_for,
    future_time,
    matter,
    past_time,
    titled,
    told,
)

_TRANSITIVE = tuple(f for f in verbs.NEWS if [slot for slot, _ in f.objects] == ["acc"])
_DIRECT = tuple(f for f in _TRANSITIVE if not f.verb.en_tail)


def _simple(dice):
    return pair(*statement(told(dice, event(dice))))


def _passive(dice):
    clause = event(dice, _DIRECT)
    agent = clause.subject if dice.chance(0.4) else None
    clause = replace(
        clause, subject=clause.accusative, accusative=None, agent=agent, passive=True
    )
    return pair(*statement(told(dice, clause)))


def _reported(dice):
    """Somebody says that something is so."""
    inner = told(dice, event(dice), place=False, front=False)
    speaker = actor(dice, ("official", "speaker", "speaker", "author"))
    if getattr(speaker, "noun", 0) == getattr(inner.subject, "noun", 1):
        return None
    verb = verbs.special(dice.pick(("sagen", "erklären")))
    # What was said in the past is told in the past: no "said that it will".
    outer = Clause(verb, speaker, tense="past" if inner.tense == "past" else "present")
    if outer.tense == "past" and not inner.time and dice.chance(0.5):
        outer = replace(outer, time=choice.on_day(dice), front=dice.pick(("", "time")))
    en, de = statement(outer)
    en_that, de_that = choice.subordinate("that", "dass", inner)
    return pair(f"{en} {en_that}", f"{de}, {de_that}")


def _according_to(dice):
    """A source in front: the police for what happens, a study for figures."""
    if dice.chance(0.6):
        source = Common(dice.pick(nouns.NEWS["voice"]))
        opening = Adjunct(
            f"according to {english.phrase(source)}",
            f"nach Angaben {german.phrase(source, 'gen')}",
        )
        subject = actor(dice, ("firm", "official", "group", "author"))
        noun = getattr(subject, "noun", None)
        if noun == source.noun:
            return None
        tags = noun.tags if noun else ("official",)
        clause = told(dice, event_of(dice, dice.pick(frames_for(tags)), subject), front=False)
    else:
        source = Common(dice.pick(nouns.NEWS["source"]), dice.pick(("the", "a")))
        opening = choice.where("according to", "laut", source, "dat")
        clause = replace(_figures_clause(dice), front="")
    return pair(*statement(replace(clause, opening=opening, front="opening")))


def _figures_clause(dice):
    """Prices rose by 3.5 percent."""
    subject = Common(dice.pick(nouns.NEWS["amount"]), "generic", plural=True)
    verb = verbs.special(dice.pick(("steigen", "sinken")))
    if dice.chance(0.5):
        whole, tenth = dice.between(0, 9), dice.between(1, 9)
        number = f"{whole}.{tenth}", f"{whole},{tenth}"
    else:
        number = choice.count(dice, low=2, high=40, digits=0.5)
    rest = Adjunct(f"by {number[0]} percent", f"um {number[1]} Prozent")
    tense = dice.weighted((("past", 4), ("perfect", 2), ("future", 2)))
    time = None
    if tense == "past":
        time = past_time(dice, exact=False)
    elif tense == "future":
        time = future_time(dice, exact=False)
    place = choice.in_city(dice) if dice.chance(0.4) else None
    front = dice.pick(("", "time" if time else "", "place" if place else ""))
    return Clause(verb, subject, rest=rest, time=time, place=place, tense=tense, front=front)


def _figures(dice):
    return pair(*statement(_figures_clause(dice)))


def _crowd(dice):
    """Many people demonstrate, or some are hurt."""
    people = nouns.find("Mensch")
    time = past_time(dice) if dice.chance(0.5) else None
    if dice.chance(0.5):
        n = dice.pick((100, 1000)) * dice.between(2, 9)
        number = choice.count(dice, low=n, high=n)
        about = dice.pick((("", ""), ("more than ", "mehr als "), ("about ", "rund ")))
        number = about[0] + number[0], about[1] + number[1]
        clause = Clause(
            verbs.special("demonstrieren"),
            Common(people, "", plural=True, count=number),
            rest=choice.where(
                "against", "gegen", matter(dice, ("lawful", "project", "ruling")), "acc"
            ),
            place=choice.in_city(dice),
            time=time,
            tense="past",
        )
        return pair(*statement(replace(clause, front=dice.pick(("", "place")))))
    disaster = Common(dice.pick(nouns.NEWS["disaster"]), dice.pick(("the", "a")))
    disaster = choice.with_adjective(dice, disaster, 0.3)
    clause = Clause(
        verbs.special(dice.pick(("verletzen", "töten"))),
        Common(people, "", plural=True, count=choice.count(dice)),
        passive=True,
        place=choice.where("in", "bei", disaster, "dat"),
        time=time,
        tense="past",
    )
    return pair(*statement(replace(clause, front=dice.pick(("", "place")))))


def _happening(dice):
    """An event starts, ends or takes place; an official travels."""
    if dice.chance(0.4):
        verb = verbs.special(dice.pick(("reisen", "zurückkehren")))
        clause = Clause(verb, actor(dice, ("official",)), rest=choice.to_city(dice))
        return pair(*statement(told(dice, clause, place=False)))
    noun = dice.pick(nouns.NEWS["event"])
    subject = choice.with_adjective(dice, Common(noun, plural="pluralonly" in noun.tags), 0.5)
    verb = verbs.special(dice.pick(("beginnen", "enden", "stattfinden")))
    clause = told(dice, Clause(verb, subject))
    if clause.tense != "perfect" and not clause.time:
        when = past_time(dice) if clause.tense == "past" else future_time(dice)
        tense = "past" if clause.tense == "past" else "future"
        clause = replace(clause, tense=tense, time=when, modal="")
    return pair(*statement(replace(clause, negated=False)))


def _reason(dice):
    """A main clause with because or although; often its subject comes back as a pronoun."""
    main = told(dice, event(dice), place=False, front=False, time=dice.chance(0.3))
    link = dice.pick((("because", "weil"), ("although", "obwohl")))
    if dice.chance(0.6):
        common = isinstance(main.subject, Common)
        tags = main.subject.noun.tags if common else ("official",)
        frame = dice.pick(frames_for(tags))
        subject = choice.refer(main.subject, thing=not set(tags) & PEOPLE)
        inner = event_of(dice, frame, subject)
    else:
        inner = event(dice)
        if getattr(inner.subject, "noun", 0) == getattr(main.subject, "noun", 1):
            return None
    known = [getattr(main, part) for part in ("accusative", "dative", "object")]
    about = {item.noun for item in known if isinstance(item, Common)}
    objects = (inner.accusative, inner.dative, inner.object)
    if inner.verb == main.verb or any(getattr(o, "noun", None) in about for o in objects):
        return None
    inner = told(dice, inner, place=False, front=False, time=False)
    sub = choice.subordinate(*link, inner)
    en, de = statement(main)
    return pair(f"{en} {sub[0]}", f"{de}, {sub[1]}")


def _relative_subject(dice):
    """The company that built the bridge has ..."""
    frame = dice.pick(_DIRECT)
    noun = dice.pick(nouns.NEWS[dice.pick(frame.subjects)])
    plural = "group" in noun.tags
    inner = event_of(dice, frame, Relative(noun, plural))
    inner = replace(inner, tense=dice.pick(("past", "perfect")))
    second = dice.pick(frames_for(noun.tags))
    if second.verb == frame.verb:
        return None
    outer = event_of(dice, second, Common(noun, plural=plural, relative=inner))
    return pair(*statement(told(dice, outer, place=False, front=False)))


def _relative_object(dice):
    """... the bridge that the company built last year."""
    outer = event(dice, _TRANSITIVE)
    target = outer.accusative
    if not isinstance(target, Common) or target.count:
        return None
    fitting = [f for f in _TRANSITIVE if set(f.objects[0][1]) & set(target.noun.tags)]
    frame = dice.pick(fitting)
    if frame.verb == outer.verb:
        return None
    maker = actor(dice, frame.subjects)
    if getattr(maker, "noun", 0) == getattr(outer.subject, "noun", 1):
        return None
    inner = choice.fill(
        frame,
        subject=maker,
        objects=[Relative(target.noun, target.plural)],
        talk=False,
    )
    time = past_time(dice) if dice.chance(0.4) else None
    inner = replace(inner, tense="past" if time else "perfect", time=time)
    target = Common(target.noun, "the", target.plural, relative=inner)
    outer = replace(outer, accusative=target)
    return pair(*statement(told(dice, outer, place=False, front=False, time=False)))


def _intention(dice):
    """Plans, promises and decisions, with an infinitive clause."""
    inner = event(dice)
    verb = verbs.special(dice.pick(("planen", "versprechen", "beschließen")))
    if verb.infinitive == inner.verb.infinitive:
        return None
    tense = "present" if verb.infinitive == "planen" else dice.pick(("past", "perfect"))
    outer = Clause(verb, inner.subject, tense=tense)
    if tense == "past" and dice.chance(0.5):
        outer = replace(outer, time=past_time(dice), front="time")
    en, de = statement(outer)
    en_inner = english.clause(inner, infinitive=True)
    return pair(f"{en} {en_inner}", f"{de}, {german.clause(inner, order='infinitive')}")


def _interview(dice):
    """A question in the formal you: "Frau Weber, wann werden Sie ...?"."""
    frame = dice.pick(frames_for(("official", "firm", "author")))
    clause = event_of(dice, frame, Pronoun(YOU_FORMAL))
    kind = dice.weighted((("future", 3), ("past", 3), ("want", 2), ("have to", 2), ("can", 1)))
    if kind in ("future", "past"):
        clause = replace(clause, tense=kind)
    else:
        clause = replace(clause, modal=kind)
    word = dice.pick(("", "when", "why", "what"))
    if word == "why" and kind == "can":
        return None
    if word == "what":
        whole = frame in _DIRECT and not frame.verb.en_particle
        if not whole or {"staff", "official", "jobs"} & set(frame.objects[0][1]):
            return None
        clause = replace(clause, accusative=Asked("what", (("acc", "was"),)))
    elif word:
        asked = Adjunct(word, {"when": "wann", "why": "warum"}[word])
        clause = replace(clause, opening=asked, front="opening")
    en, de = choice.question(clause)
    person = titled(dice)
    return pair(f"{person.en}, {en}", f"{person.de}, {de}", "?")


def _appointed(dice):
    """A name with an apposition, which agrees in case in German."""
    noun = dice.pick(tuple(n for n in nouns.NEWS["official"] if n.en != "spokeswoman"))
    first = dice.pick([n for n in words.FIRST_NAMES if n.gender == noun.gender])
    surname = dice.pick(words.SURNAMES)
    office = Common(
        noun, of=Common(dice.pick(nouns.NEWS["firm"])) if noun.gender == "f" else None
    )
    if noun.en == "chancellor":
        office = Common(noun)
    name = f"{first.en} {surname}"
    apposition = Name(
        f"{name}, {english.phrase(office)},",
        f"{name}, {german.phrase(office, 'nom')},",
        noun.gender,
    )
    clause = event_of(dice, dice.pick(frames_for(("official",))), apposition)
    return pair(*statement(told(dice, clause, place=False, front=False)))


PATTERNS = (
    (_simple, 24),
    (_passive, 10),
    (_reported, 12),
    (_according_to, 8),
    (_figures, 7),
    (_crowd, 7),
    (_happening, 7),
    (_reason, 9),
    (_relative_subject, 5),
    (_relative_object, 5),
    (_intention, 6),
    (_interview, 12),
    (_appointed, 4),
)
