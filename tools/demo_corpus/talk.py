"""Sentences of everyday talk: I and you, contractions, fillers, commands and questions."""

from __future__ import annotations

from dataclasses import replace

from . import choice, english, german, nouns, set_phrases, verbs, words
from .choice import pair, statement
from .meaning import (
    ME,
    WE,
    YOU,
    Adjunct,
    Asked,
    Clause,
    Common,
    Pronoun,
    Relative,
)
from .talk_parts import (
    HE,
    OPENINGS,
    SHE,
    event,
    filled,
    kin,
    past_time,
    person,
    subject,
    told,
)

_TRANSITIVE = tuple(
    f for f in verbs.TALK if [s for s, _ in f.objects] == ["acc"] and not f.verb.stative
)
_COMMANDED = tuple(
    f for f in verbs.TALK if f.objects and f.willed and not (f.verb.stative or f.verb.reflexive)
)
_THINGS = tuple(f for f in _TRANSITIVE if f.willed and "kin" not in f.objects[0][1])
_FAVOURS = tuple(
    verbs.frame(german, table=verbs.TALK)
    for german in (
        "helfen abholen anrufen besuchen kochen backen reparieren aufräumen lesen sehen "
        "mitbringen waschen gießen suchen treffen einladen"
    ).split()
)
_WISHED = "helfen laden rufen besuchen kaufen".split()
_CONDITIONS = tuple(
    verbs.frame(german, table=verbs.TALK)
    for german in "verlieren vergessen finden helfen einladen anrufen besuchen kaufen".split()
)
_RESCUES = tuple(
    verbs.frame(german, table=verbs.TALK) for german in "helfen anrufen suchen fragen".split()
)
_MISSED = ("finden", "suchen", "brauchen")
_BUYING = verbs.frame("kaufen", table=verbs.TALK)
# What speaks for buying or selling a thing, and against it.
_REASONS = {
    ("kaufen", False): "cheap beautiful new warm delicious funny red blue",
    ("kaufen", True): "expensive old big small heavy",
    ("verkaufen", False): "old big small heavy",
    ("verkaufen", True): "old beautiful small",
    ("waschen", False): "dirty",
    ("anziehen", False): "warm new beautiful red black",
    ("anziehen", True): "warm old",
    ("lesen", True): "long boring heavy",
    ("sehen", False): "funny",
    ("sehen", True): "boring long",
}
_SEIN, _HABEN = verbs.special("sein"), verbs.special("haben")


def _simple(dice):
    clause, frame = event(dice)
    clause = told(dice, clause, frame)
    if not clause.front and not clause.negated and dice.chance(0.2):
        # Nobody is lucky to lose a key.
        opening = dice.pick(OPENINGS if frame.willed else OPENINGS[:2])
        clause = replace(clause, opening=opening, front="opening")
        return pair(*statement(clause))
    return pair(*filled(dice, clause))


def _asked(dice):
    """A question to a friend."""
    who = dice.weighted(((Pronoun(YOU), 6), (HE, 1), (SHE, 1), (Pronoun(WE), 1), ("kin", 3)))
    if who == "kin":
        who = kin(dice, "your")
    clause, frame = event(dice, who=who)
    clause = replace(told(dice, clause, frame, front=False), negated=False)
    word = dice.weighted((("", 4), ("when", 2), ("why", 2), ("what", 2), ("where", 1)))
    if word == "what":
        if frame not in _THINGS or frame.verb.en_tail or frame.verb.en_particle:
            return None
        clause = replace(clause, accusative=Asked("what", (("acc", "was"),)))
    elif word:
        if clause.adverb or frame.verb.stative or not frame.lasting:
            return None
        time = None if word == "when" else clause.time
        de = {"when": "wann", "why": "warum", "where": "wo"}[word]
        clause = replace(clause, opening=Adjunct(word, de), front="opening", time=time)
        if word == "when" and clause.tense == "present" and not clause.modal:
            clause = replace(clause, tense="past")
    en, de = choice.question(clause)
    if who.person == YOU and dice.chance(0.3):
        name = dice.pick(words.FIRST_NAMES)
        return pair(f"{name.en}, {en}", f"{name.de}, {de}", "?")
    return pair(en, de, "?")


def _who(dice):
    """Who did it? The question word is the subject, so English needs no do."""
    clause, frame = event(dice, who=HE)
    clause = told(dice, clause, frame, front=False)
    items = [i for i in (clause.accusative, clause.dative, clause.object) if i is not None]
    if clause.modal == "would like" or any(getattr(i, "det", "") == "his" for i in items):
        return None
    who = Asked("who", (("nom", "wer"),))
    return pair(*choice.question(replace(clause, subject=who, negated=False)), "?")


def _command(dice):
    clause, _ = event(dice, _COMMANDED, Pronoun(YOU))
    clause = replace(clause, negated=dice.chance(0.2))
    if not clause.negated and dice.chance(0.3):
        clause = replace(clause, time=dice.pick(words.TALK_FUTURE))
    en, de = english.imperative(clause), german.imperative(clause)
    if dice.chance(0.3):
        name = dice.pick(words.FIRST_NAMES)
        return pair(f"{name.en}, {en}", f"{name.de}, {de}", "!")
    return pair(en, de, "!")


def _trip(dice):
    """Going, driving and flying; German asks whether it is a city, a building or a person."""
    kind = dice.pick(("city", "outing", "home", "person"))
    who = subject(dice)
    if kind == "city":
        verb, rest = dice.pick(("fahren", "fliegen", "umziehen")), choice.to_city(dice)
    elif kind == "outing":
        target = Common(dice.pick(nouns.TALK["outing"]))
        verb, rest = "gehen", choice.where("to", "in", target, "acc")
    elif kind == "home":
        home = (
            ("gehen", Adjunct("home", "nach Hause")),
            ("bleiben", Adjunct("at home", "zu Hause")),
        )
        verb, rest = dice.pick(home)
    else:
        verb, rest = "gehen", choice.where("to", "zu", person(dice, who, pronoun=0), "dat")
    clause = Clause(verbs.special(verb), who, rest=rest, talk=True)
    if dice.chance(0.25) and kind != "person":
        clause = told(
            dice, replace(clause, subject=Pronoun(YOU)), front=False, long=kind == "city"
        )
        return pair(*choice.question(replace(clause, negated=False)), "?")
    return pair(*filled(dice, told(dice, clause, long=kind == "city"), 0.15))


def _because(dice):
    """Something done or not, and why; the pronoun has the gender of the German noun."""
    who = subject(dice)
    verb, negated = dice.pick(tuple(_REASONS))
    frame = verbs.frame(verb, table=verbs.TALK)
    item = replace(event(dice, (frame,), who)[0].accusative, adjective=None)
    reasons = _REASONS[verb, negated].split()
    fitting = [a for a in words.fitting(item.noun) if a.en in reasons]
    if not fitting:
        return None
    if negated or item.det == "":
        item = replace(item, det="the", count=None)
    clause = Clause(frame.verb, who, accusative=item, tense="past", negated=negated, talk=True)
    quality = dice.pick(fitting)
    so = quality.en not in words.COLOURS and dice.chance(0.4)
    too = ("too ", "zu ") if negated else ("so ", "so ") if so else ("", "")
    why = Clause(
        _SEIN,
        choice.refer(item, thing=True),
        tense="past",
        talk=True,
        rest=Adjunct(too[0] + quality.en, too[1] + quality.de),
    )
    en, de = statement(clause)
    sub = choice.subordinate("because", "weil", why)
    return pair(f"{en} {sub[0]}", f"{de}, {sub[1]}")


def _lost(dice):
    """Where is it? I can't find it."""
    noun = dice.pick(nouns.TALK[dice.pick(("thing", "thing", "pet"))])
    det = dice.weighted((("the", 3), ("my", 3), ("your", 2)))
    item = Common(noun, det, plural=dice.chance(0.15))
    german_verb = dice.pick(("finden", "suchen") if "pet" in noun.tags else _MISSED)
    who = dice.weighted(((Pronoun(ME), 3), (Pronoun(WE), 1), ("name", 1)))
    clause = Clause(
        verbs.frame(german_verb, table=verbs.TALK).verb,
        dice.pick(words.FIRST_NAMES) if who == "name" else who,
        accusative=choice.refer(item, thing=True),
        talk=True,
    )
    if german_verb == "finden":
        clause = replace(clause, modal="can", negated=True)
    asked = Clause(_SEIN, item, opening=Adjunct("where", "wo"), front="opening", talk=True)
    first, second = pair(*choice.question(asked), "?"), pair(*statement(clause))
    return f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


def _condition(dice):
    """If you have time, ...: the German main clause then begins with its verb."""
    first = dice.weighted(((Pronoun(YOU), 3), (Pronoun(ME), 2), (HE, 1), (SHE, 1)))
    means = dice.pick(nouns.TALK["had"])
    inner = Clause(_HABEN, first, accusative=Common(means, ""), simple=True, talk=True)
    who = Pronoun(WE) if first in (HE, SHE) else dice.pick((first, Pronoun(WE)))
    frames = _FAVOURS if means.en == "time" else (_BUYING,)
    if dice.chance(0.4):
        inner = replace(event(dice, _CONDITIONS, first)[0], simple=True)
        frames = _FAVOURS if inner.verb.infinitive in _WISHED else _RESCUES
    main, _ = event(dice, frames, who)
    modal = dice.weighted((("can", 3), ("have to", 1), ("should", 1), ("", 3)))
    main = replace(main, modal=modal, tense="present" if modal else "future")
    if main.verb == inner.verb:
        return None
    sub = choice.subordinate("if", "wenn", inner)
    if dice.chance(0.6):
        return pair(*choice.behind(sub, main))
    en, de = statement(main)
    return pair(f"{en} {sub[0]}", f"{de}, {sub[1]}")


def _opinion(dice):
    """I think that ...: German puts the verb last."""
    opener = dice.pick(
        (
            ("I think that", "ich glaube, dass"),
            ("I hope that", "ich hoffe, dass"),
            ("I know that", "ich weiß, dass"),
            ("I don't know whether", "ich weiß nicht, ob"),
            ("do you know whether", "weißt du, ob"),
            ("do you think that", "glaubst du, dass"),
        )
    )
    clause, frame = event(dice)
    asks = opener[0].startswith("do ")
    who = clause.subject.person
    if who == ME or (who == YOU and (asks or "know" in opener[0])):
        return None
    en, de = choice.subordinate(*opener, told(dice, clause, frame, front=False))
    return pair(en, de, "?" if asks else ".")


def _relative(dice):
    """The jacket that I bought yesterday is too small."""
    frame = dice.pick(_THINGS)
    noun = dice.pick(nouns.TALK[dice.pick(frame.objects[0][1])])
    fitting = [a for a in words.fitting(noun) if a.en != "new"]
    if not fitting or {"mass", "sought"} & set(noun.tags):
        return None
    plural = "countable" in noun.tags and dice.chance(0.2)
    inner = choice.fill(
        frame, subject=subject(dice), objects=[Relative(noun, plural)], talk=True
    )
    inner = replace(inner, tense="past", time=past_time(dice) if dice.chance(0.6) else None)
    quality = dice.pick(fitting)
    too = dice.pick((("", ""), ("very ", "sehr "), ("so ", "so ")))
    if quality.en in words.COLOURS:
        too = ("", "")
    main = Clause(
        _SEIN,
        Common(noun, "the", plural, relative=inner),
        tense=dice.pick(("present", "past")),
        talk=True,
        rest=Adjunct(too[0] + quality.en, too[1] + quality.de),
    )
    return pair(*statement(main))


PATTERNS = (
    (_simple, 28),
    (_asked, 16),
    (_who, 4),
    (_command, 6),
    (_trip, 8),
    (_because, 7),
    (_lost, 3),
    (_condition, 7),
    (_opinion, 12),
    (_relative, 7),
    *set_phrases.PATTERNS,
)
