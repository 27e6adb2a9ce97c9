"""Who and what one talks about, and when."""

from __future__ import annotations

from dataclasses import replace

from . import choice, english, german, nouns, numerals, verbs, words
from .choice import statement
from .meaning import IT, ME, THEY, WE, YOU, Adjunct, Common, Pronoun

HE, SHE = Pronoun(IT, "m"), Pronoun(IT, "f")
_SUBJECTS = (
    (Pronoun(ME), 30),
    (Pronoun(YOU), 6),
    (HE, 8),
    (SHE, 8),
    (Pronoun(WE), 12),
    (Pronoun(THEY), 5),
    ("name", 10),
    ("kin", 21),
)
# Said before the sentence, which keeps its order.
_FILLERS = (
    ("well", "na ja"),
    ("you know", "weißt du"),
    ("honestly", "ehrlich gesagt"),
    ("oh", "ach"),
    ("listen", "hör mal"),
)
# These take the first place in German, so the subject goes behind the verb.
OPENINGS = (
    Adjunct("maybe", "vielleicht"),
    Adjunct("unfortunately", "leider"),
    Adjunct("of course", "natürlich"),
    Adjunct("luckily", "zum Glück"),
    Adjunct("by the way", "übrigens"),
)
_OWN = {ME: "my", YOU: "your", WE: "our", THEY: "their"}


def filled(dice, clause, probability=0.3):
    """A statement, perhaps behind a filler when nothing else opens it."""
    filler = not clause.front and dice.chance(probability)
    before = dice.pick(_FILLERS) if filler else ("", "")
    return statement(clause, before=before)


def own(subject):
    """The possessive that goes with a subject."""
    if subject.person in _OWN:
        return _OWN[subject.person]
    noun = getattr(subject, "noun", subject)
    return "her" if noun.gender == "f" else "his"


def kin(dice, det):
    """A relative or friend, now and then several."""
    noun = dice.pick(nouns.TALK["kin"])
    several = "pluralonly" in noun.tags or ("several" in noun.tags and dice.chance(0.15))
    return Common(noun, det, plural=several)


def subject(dice):
    """Somebody who does something."""
    who = dice.weighted(_SUBJECTS)
    if who == "name":
        return dice.pick(words.FIRST_NAMES)
    if who == "kin":
        name = dice.pick(words.FIRST_NAMES).en
        return kin(dice, dice.weighted((("my", 6), ("your", 2), ("our", 1), (f"{name}'s", 1))))
    return who


def person(dice, other, *, pronoun=0.35):
    """Somebody to call or to help, not the subject `other`."""
    if dice.chance(pronoun):
        people = [Pronoun(ME), Pronoun(YOU), HE, SHE, Pronoun(WE), Pronoun(THEY)]
        people = [p for p in people if p.person != other.person]
        if other.person in (ME, WE):
            people = [p for p in people if p.person not in (ME, WE)]
        return dice.pick(people)
    if dice.chance(0.25):
        return dice.pick([name for name in words.FIRST_NAMES if name != other])
    while True:
        item = kin(dice, own(other))
        if item.noun != getattr(other, "noun", None):
            return item


def thing(dice, tag, owner):
    """An object with a determiner that suits it."""
    noun = dice.pick(nouns.TALK[tag])
    kinds = set(noun.tags)
    if "had" in kinds:
        return Common(noun, "")
    if "mass" in kinds:
        return choice.with_adjective(dice, Common(noun, dice.pick(("", "the"))), 0.15)
    if "pluralonly" in kinds:
        return Common(noun, "the", plural=True)
    dets = [("the", 5), ("this", 1)]
    if "thing" in kinds:
        dets += [(own(owner), 3), (f"{dice.pick(words.FIRST_NAMES).en}'s", 1)]
    if "countable" in kinds:
        dets.append(("a", 4))
    if kinds & {"visited", "child", "pet"}:
        dets.append((own(owner), 3))
    item = Common(noun, dice.weighted(dets))
    if item.det == "a" and dice.chance(0.2):
        item = Common(noun, "", plural=True, count=choice.count(dice, high=30, digits=0.1))
    elif kinds & {"food", "small"} and item.det in ("the", "my") and dice.chance(0.15):
        item = replace(item, plural=True)
    return choice.with_adjective(dice, item, 0.25)


def event(dice, frames=verbs.TALK, who=None):
    """A clause from one of the frames, and the frame."""
    frame = dice.pick(frames)
    if who is None:
        who = subject(dice)
    objects = []
    for _, tags in frame.objects:
        tag = dice.pick(tags)
        item = person(dice, who) if tag == "kin" else thing(dice, tag, who)
        if frame.verb.infinitive == "ziehen" and item.det != "this":
            # One puts on one's own clothes, and several people several.
            item = replace(item, det=own(who), plural=who.person in (WE, THEY), count=None)
        elif frame.verb.infinitive == "kaufen" and item.det not in ("the", "a", "this", ""):
            item = replace(item, det="the")  # one does not buy what one has
        objects.append(item)
    return choice.fill(frame, subject=who, objects=objects, talk=True), frame


def clock(dice):
    """A time of the day; German counts the half hour towards the next hour."""
    hour = dice.between(1, 11)
    if dice.chance(0.5):
        half = numerals.english(hour), numerals.german(hour + 1)
        return Adjunct(f"at half past {half[0]}", f"um halb {half[1]}")
    german_hour = "ein" if hour == 1 else numerals.german(hour)
    return Adjunct(f"at {numerals.english(hour)} o'clock", f"um {german_hour} Uhr")


def past_time(dice, *, long=False):
    """A time that is over; `long` for what one does once in a while."""
    kind = dice.below(6)
    if kind == 0 or (long and kind < 3):
        units = ("month", "year", "week") if long else ("day", "week", "hour", "minute")
        unit = nouns.UNITS[dice.pick(units)]
        item = Common(unit, "", plural=True, count=choice.count(dice, high=12, digits=0.0))
        return Adjunct(f"{english.phrase(item)} ago", german.prepositional("vor", item, "dat"))
    if kind == 1:
        return choice.on_day(dice)
    return dice.pick(words.TALK_LONG_AGO + words.TALK_PAST[:2] if long else words.TALK_PAST)


def future_time(dice, *, long=False):
    """A time to come; `long` for what one does once in a while."""
    if long:
        return dice.pick(words.TALK_FAR_AWAY + words.TALK_FUTURE[:2])
    return choice.on_day(dice) if dice.chance(0.15) else dice.pick(words.TALK_FUTURE)


def told(dice, clause, frame=None, *, front=True, long=False):
    """The clause with a tense, a time, negation, and perhaps a front part.

    `frame` says whether the clause can be going on now and whether one can want it; `long`
    allows for times as far as years away.
    """
    lasting = frame is None or frame.lasting
    willed = frame is None or frame.willed
    table = [("past", 6)]
    if lasting:
        table.append(("present", 4))
    if willed and not clause.verb.stative:
        table += [("future", 3), ("perfect", 2)]
    if willed:
        table.append(("modal", 5))
    kind = dice.weighted(table)
    negated = dice.chance(0.18) and not getattr(clause.accusative, "count", None)
    if kind == "past":
        timed = not clause.verb.stative and dice.chance(0.7)
        time = past_time(dice, long=long) if timed else None
        clause = replace(clause, tense="past", time=time, negated=negated)
    elif kind == "present":
        clause = _now(dice, replace(clause, negated=negated))
    elif kind == "future":
        clause = replace(
            clause, tense="future", time=future_time(dice, long=long), negated=negated
        )
    elif kind == "perfect":
        sought = clause.verb.infinitive == "suchen"  # one finally finds, but not seeks
        adverb = words.TALK_ADVERBS[0] if sought else dice.pick(words.TALK_ADVERBS)
        clause = replace(clause, tense="perfect", adverb=adverb)
    else:
        clause = _wanted(dice, clause, negated)
    # "Gerade" would be heard as "just now" in front.
    if front and clause.time and clause.time.de != "gerade" and dice.chance(0.35):
        return replace(clause, front="time")
    return clause


def _wanted(dice, clause, negated):
    """The clause with a modal verb."""
    if clause.verb.stative:
        return replace(clause, modal="have to", negated=negated)
    modal = dice.weighted(
        (("have to", 4), ("want", 3), ("can", 3), ("should", 2), ("would like", 2))
    )
    past = modal in ("have to", "want") and dice.chance(0.35)
    time = None
    if dice.chance(0.35):
        time = past_time(dice) if past else future_time(dice)
    return replace(
        clause,
        modal=modal,
        tense="past" if past else "present",
        negated=negated and modal != "would like",
        time=time,
    )


def _now(dice, clause):
    """The present: going on now, or a habit."""
    kind = dice.below(5)
    if clause.verb.stative or kind == 0:
        return clause
    if kind == 1 and not clause.negated:
        return replace(clause, adverb=dice.pick(words.OFTEN))
    if kind == 2 and not clause.negated:
        return replace(clause, time=dice.pick(words.TALK_HABIT))
    return replace(clause, time=dice.pick(words.TALK_NOW))
