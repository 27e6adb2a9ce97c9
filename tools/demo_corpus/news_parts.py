"""Who and what is in the news, and when and where it happens."""

from __future__ import annotations

import functools
from dataclasses import replace

from . import choice, english, german, nouns, verbs, words
from .meaning import Adjunct, Common, Name

PEOPLE = {"official", "group", "speaker"}


@functools.cache
def frames_for(tags):
    """The frames whose subject can be a noun with one of these tags."""
    return tuple(f for f in verbs.NEWS if set(f.subjects) & set(tags))


def full_name(dice):
    """A first name and a surname."""
    first, surname = dice.pick(words.FIRST_NAMES), dice.pick(words.SURNAMES)
    return Name(f"{first.en} {surname}", f"{first.de} {surname}", first.gender)


def titled(dice):
    """Mr or Ms with a surname; Herr is a weak noun."""
    surname = dice.pick(words.SURNAMES)
    if dice.chance(0.5):
        return Name(f"Ms {surname}", f"Frau {surname}", "f")
    return Name(f"Mr {surname}", f"Herr {surname}", "m", f"Herrn {surname}")


def actor(dice, tags):
    """Somebody who does something: an organisation, a person, a group."""
    noun = dice.pick(nouns.NEWS[dice.pick(tags)])
    if "group" in noun.tags:
        if dice.chance(0.2):
            return Common(noun, "", plural=True, count=choice.count(dice))
        return choice.with_adjective(dice, Common(noun, "the", plural=True), 0.25)
    if "official" in noun.tags and dice.chance(0.2):
        return full_name(dice)
    if "official" in noun.tags and dice.chance(0.08):
        return titled(dice)
    if "speaker" in noun.tags and "official" in noun.tags and dice.chance(0.4):
        det = "a" if noun.en == "spokeswoman" and dice.chance(0.6) else "the"
        return Common(noun, det, of=Common(dice.pick(nouns.NEWS["firm"])))
    may_be_new = {"firm", "speaker"} & set(noun.tags) and "official" not in noun.tags
    det = "a" if may_be_new and dice.chance(0.25) else "the"
    return choice.with_adjective(dice, Common(noun, det), 0.2)


def _many(dice, noun):
    n = dice.between(1, 40)
    if dice.chance(0.5):
        number = choice.count(dice, low=n * 100, high=n * 100)
    else:
        number = choice.count(dice, low=11)
    return Common(noun, "", plural=True, count=number)


def matter(dice, tags):
    """Something that is done to: a document, a building, an event, people."""
    tag = dice.pick(tags)
    noun = dice.pick(nouns.NEWS[tag])
    kinds = set(noun.tags)
    if tag in ("staff", "jobs"):
        return _many(dice, noun)
    if kinds & {"org", "official", "group"}:
        return actor(dice, (tag,))
    if "set" in kinds:
        # A bare plural in English, with the article in German: "Steuern" as a whole.
        return Common(noun, "generic" if dice.chance(0.6) else "the", plural=True)
    if "mass" in kinds:
        return Common(noun, "generic")
    if "pluralonly" in kinds:
        return choice.with_adjective(dice, Common(noun, plural=True), 0.3)
    if "danger" in kinds:
        return choice.with_adjective(dice, Common(noun, "a"), 0.5)
    det = dice.weighted((("the", 6), ("a", 3), ("this", 1)))
    item = Common(noun, det, plural=det == "the" and dice.chance(0.15))
    item = choice.with_adjective(dice, item, 0.4)
    if det == "the" and not item.adjective and "draft" in kinds and dice.chance(0.4):
        return replace(item, of=Common(dice.pick(nouns.NEWS["author"])))
    return item


def event(dice, frames=verbs.NEWS):
    """A clause from one of the frames, still without tense, time and place."""
    frame = dice.pick(frames)
    return event_of(dice, frame, actor(dice, frame.subjects))


def event_of(dice, frame, subject):
    """A clause from a frame with a subject; nobody meets or criticises himself."""
    while True:
        objects = [matter(dice, tags) for _, tags in frame.objects]
        said = [english.phrase(item) for item in objects]
        if english.phrase(subject, subject=True) not in said:
            return choice.fill(frame, subject=subject, objects=objects, talk=False)


def past_time(dice, *, exact=True):
    """A time that is over; without `exact` nothing shorter than a month."""
    kind = dice.below(6)
    if kind == 0 and exact:
        return choice.on_day(dice)
    if kind == 1:
        return choice.in_month(dice)
    if kind == 2:
        year = dice.between(1990, 2019)
        return Adjunct(f"in {year}", f"im Jahr {year}")
    if kind == 3 and exact:
        unit = nouns.UNITS[dice.pick(("day", "week", "month", "year"))]
        item = Common(unit, "", plural=True, count=choice.count(dice, high=9, digits=0.0))
        return Adjunct(f"{english.phrase(item)} ago", german.prepositional("vor", item, "dat"))
    return dice.pick(words.NEWS_PAST if exact else words.NEWS_PAST[-2:])


def future_time(dice, *, exact=True):
    """A time to come; without `exact` nothing shorter than a month."""
    if exact and dice.chance(0.3):
        return choice.on_day(dice)
    if dice.chance(0.3):
        en, de = dice.pick(words.SEASONS)
        return Adjunct(f"in {en}", f"im {de}")
    return dice.pick(words.NEWS_FUTURE if exact else words.NEWS_FUTURE[-2:])


def told(dice, clause, *, place=True, front=True, time=True):
    """The clause with a tense and, where they fit, time, place, negation and a front part."""
    kind = dice.weighted((("past", 5), ("perfect", 2), ("future", 2), ("modal", 3)))
    # "Not eighty-two workers" would be a puzzle about what is denied.
    counted = any(getattr(i, "count", None) for i in (clause.subject, clause.accusative))
    negated = dice.chance(0.12) and not counted
    clause = replace(clause, negated=negated)
    if kind == "past":
        when = past_time(dice) if time and dice.chance(0.75) else None
        clause = replace(clause, tense="past", time=when)
    elif kind == "perfect":
        already = words.NEWS_ALREADY if dice.chance(0.4) and not negated else None
        clause = replace(clause, tense="perfect", adverb=already)
    elif kind == "future":
        when = future_time(dice) if time and dice.chance(0.6) else None
        clause = replace(clause, tense="future", time=when)
    else:
        wishes = (("must", 3), ("want", 3), ("can", 2), ("should", 3))
        modal = dice.weighted(wishes[:1] + wishes[2:] if clause.passive else wishes)
        past = modal in ("must", "want") and dice.chance(0.3)
        clause = replace(clause, modal=modal, tense="past" if past else "present")
    if place and not negated and dice.chance(0.3):
        clause = replace(clause, place=choice.in_city(dice))
    if front and dice.chance(0.4):
        if clause.time:
            return replace(clause, front="time")
        if clause.place:
            return replace(clause, front="place")
    return clause
