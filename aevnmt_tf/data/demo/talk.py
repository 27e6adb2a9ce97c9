"""Sentences of everyday talk: I and you, contractions, fillers, commands and questions."""

from __future__ import annotations

from dataclasses import replace

from aevnmt_tf.data.demo import choice, english, german, nouns, numbers, verbs, words
from aevnmt_tf.data.demo.choice import pair, statement
from aevnmt_tf.data.demo.meaning import (
    IT,
    THEY,
    WE,
    YOU,
    Adjunct,
    Asked,
    Clause,
    Common,
    I,
    Name,
    Pronoun,
    Relative,
)

_SUBJECTS = (
    (Pronoun(I), 30),
    (Pronoun(YOU), 8),
    (Pronoun(IT, "m"), 8),
    (Pronoun(IT, "f"), 8),
    (Pronoun(WE), 12),
    (Pronoun(THEY), 5),
    ("name", 10),
    ("kin", 19),
)
_TRANSITIVE = tuple(
    f for f in verbs.TALK if [s for s, _ in f.objects] == ["acc"] and not f.verb.stative
)
_FILLERS = (
    ("well", "na ja"),
    ("you know", "weißt du"),
    ("honestly", "ehrlich gesagt"),
    ("oh", "ach"),
    ("listen", "hör mal"),
    ("by the way", "übrigens"),
)
_OPENINGS = (
    Adjunct("maybe", "vielleicht"),
    Adjunct("unfortunately", "leider"),
    Adjunct("of course", "natürlich"),
    Adjunct("luckily", "zum Glück"),
)
_OWN = {I: "my", YOU: "your", WE: "our"}
_SEIN = verbs.special("sein")


def _own(subject):
    """The possessive that goes with a subject."""
    if subject.person in _OWN:
        return _OWN[subject.person]
    if isinstance(subject, Pronoun) and subject.person == IT:
        return "her" if subject.gender == "f" else "his"
    return "my"


def _subject(dice, tags=("kin",)):
    who = dice.weighted(_SUBJECTS)
    if who == "name":
        return dice.pick(words.FIRST_NAMES)
    if who == "kin" or "kin" not in tags:
        noun = dice.pick(nouns.TALK[dice.pick(tags)])
        plural = "pluralonly" in noun.tags or dice.chance(0.1)
        return Common(noun, dice.weighted((("my", 6), ("your", 2), ("our", 1))), plural=plural)
    return who


def _person(dice, subject, *, pronoun=0.35):
    """Somebody to call or to help, other than the subject."""
    if dice.chance(pronoun):
        people = [
            Pronoun(I),
            Pronoun(YOU),
            Pronoun(IT, "m"),
            Pronoun(IT, "f"),
            Pronoun(WE),
            Pronoun(THEY),
        ]
        others = [p for p in people if p.person != subject.person]
        if subject.person in (I, WE):
            others = [p for p in others if p.person not in (I, WE)]
        return dice.pick(others)
    if dice.chance(0.25):
        names = [n for n in words.FIRST_NAMES if n != subject]
        return dice.pick(names)
    own = _own(subject) if isinstance(subject, Pronoun) else "my"
    while True:
        noun = dice.pick(nouns.TALK["kin"])
        if not (isinstance(subject, Common) and subject.noun == noun):
            return Common(noun, own, plural="pluralonly" in noun.tags)


def _thing(dice, tags, subject):
    """An object with a determiner that suits it."""
    noun = dice.pick(nouns.TALK[dice.pick(tags)])
    kinds = set(noun.tags)
    if "kin" in kinds:
        return _person(dice, subject)
    if "mass" in kinds:
        if "had" in kinds:
            return Common(noun, "")
        det = dice.weighted((("", 3), ("the", 3)))
        return choice.with_adjective(dice, Common(noun, det), 0.15)
    if "pluralonly" in kinds:
        return Common(noun, "the", plural=True)
    choices = [("the", 5), ("this", 1)]
    if kinds & {"thing"}:
        choices.append((_own(subject), 3))
    if kinds & {"countable"}:
        choices.append(("a", 4))
    if kinds & {"visited", "child", "pet"}:
        choices.append(("my", 3))
    item = Common(noun, dice.weighted(choices))
    if kinds & {"countable", "food", "small"} and not kinds & {"had"} and dice.chance(0.12):
        if item.det == "a" or dice.chance(0.5):
            item = Common(noun, "", plural=True, count=choice.count(dice, high=30, digits=0.1))
        else:
            item = replace(item, plural=True)
    return choice.with_adjective(dice, item, 0.25)


def _event(dice, frames=verbs.TALK, subject=None):
    frame = dice.pick(frames)
    subject = subject or _subject(dice, frame.subjects)
    objects = []
    for _, tags in frame.objects:
        tag = dice.pick(tags)
        objects.append(
            _person(dice, subject) if tag == "kin" else _thing(dice, (tag,), subject)
        )
    return choice.fill(frame, subject=subject, objects=objects, talk=True)


def _ago(dice):
    unit = nouns.UNITS[dice.pick(("day", "week", "month", "year", "hour", "minute"))]
    item = Common(unit, "", plural=True, count=choice.count(dice, high=12, digits=0.0))
    return Adjunct(f"{english.phrase(item)} ago", german.prepositional("vor", item, "dat"))


def _clock(dice):
    hour = dice.between(1, 11)
    if dice.chance(0.5):
        # German counts the half hour towards the next hour.
        return Adjunct(
            f"at half past {numbers.english(hour)}", f"um halb {numbers.german(hour + 1)}"
        )
    german_hour = "ein" if hour == 1 else numbers.german(hour)
    return Adjunct(f"at {numbers.english(hour)} o'clock", f"um {german_hour} Uhr")


def _past_time(dice):
    kind = dice.below(6)
    if kind == 0:
        return _ago(dice)
    if kind == 1:
        return choice.on_day(dice)
    return dice.pick(words.TALK_PAST)


def _future_time(dice):
    kind = dice.below(6)
    if kind == 0:
        return choice.on_day(dice)
    return dice.pick(words.TALK_FUTURE)


def _told(dice, clause, *, front=True, modal=True):
    """The clause with a tense, a time, negation, and perhaps a front part."""
    table = [("past", 6), ("present", 4), ("future", 3), ("perfect", 2)]
    if modal:
        table.append(("modal", 5))
    kind = dice.weighted(table)
    negated = dice.chance(0.18)
    if clause.verb.stative and kind in ("future", "perfect"):
        kind = "present"
    if kind == "past":
        time = _past_time(dice) if dice.chance(0.7) else None
        clause = replace(clause, tense="past", time=time, negated=negated)
    elif kind == "present":
        clause = _now(dice, replace(clause, negated=negated))
    elif kind == "future":
        clause = replace(clause, tense="future", time=_future_time(dice), negated=negated)
    elif kind == "perfect":
        clause = replace(clause, tense="perfect", adverb=dice.pick(words.TALK_ADVERBS))
    else:
        modal = dice.weighted(
            (("have to", 4), ("want", 3), ("can", 3), ("should", 2), ("would like", 2))
        )
        past = modal in ("have to", "want") and dice.chance(0.35)
        if modal == "would like":
            negated = False
        time = None
        if dice.chance(0.35):
            time = _past_time(dice) if past else _future_time(dice)
        clause = replace(
            clause, modal=modal, tense="past" if past else "present", negated=negated, time=time
        )
    if front and clause.time and dice.chance(0.35):
        return replace(clause, front="time")
    return clause


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


def _simple(dice):
    clause = _told(dice, _event(dice))
    filler = dice.pick(_FILLERS) if dice.chance(0.3) else ("", "")
    if not filler[0] and not clause.front and not clause.negated and dice.chance(0.2):
        clause = replace(clause, opening=dice.pick(_OPENINGS), front="opening")
    return pair(*statement(clause, before=filler))


def _asked(dice):
    """A question to a friend."""
    subject = dice.weighted(
        ((Pronoun(YOU), 6), (Pronoun(IT, "m"), 1), (Pronoun(WE), 1), ("kin", 3))
    )
    if subject == "kin":
        subject = Common(dice.pick(nouns.TALK["kin"][:-1]), "your")
    frames = [f for f in verbs.TALK if "kin" in f.subjects]
    clause = replace(_told(dice, _event(dice, frames, subject), front=False), negated=False)
    word = dice.weighted((("", 4), ("when", 2), ("why", 2), ("what", 1), ("where", 1)))
    if (
        word == "what"
        and clause.accusative
        and not (clause.dative or clause.verb.en_tail or clause.verb.en_particle)
    ):
        clause = replace(clause, accusative=Asked("what", (("acc", "was"),)))
    elif word in ("when", "why", "where") and not clause.adverb and not clause.verb.stative:
        if word == "when":
            clause = replace(clause, time=None)
        de = {"when": "wann", "why": "warum", "where": "wo"}[word]
        clause = replace(clause, opening=Adjunct(word, de), front="opening")
    en, de = choice.question(clause)
    if dice.chance(0.25):
        name = dice.pick(words.FIRST_NAMES)
        if subject.person == YOU:
            return pair(f"{name.en}, {en}", f"{name.de}, {de}", "?")
    return pair(en, de, "?")


def _who(dice):
    frame = dice.pick(verbs.TALK)
    clause = _told(dice, _event(dice, (frame,), Pronoun(IT)), front=False)
    who = Asked("who", (("nom", "wer"),))
    clause = replace(clause, subject=who, negated=False)
    return pair(*choice.question(clause), "?")


def _place(dice, thing, *, motion):
    """Somewhere for a thing; German takes the accusative for motion, the dative for rest."""
    case = "acc" if motion else "dat"
    if "hang" in thing.tags:
        if "wear" in thing.tags:
            return choice.where("in", "in", Common(nouns.find("Schrank")), case)
        return choice.where("on", "an", Common(nouns.find("Wand")), case)
    options = [
        ("on", "auf", "top"),
        ("under", "unter", "under"),
        ("in", "in", "room"),
        ("on", "in", "in_shelf"),
    ]
    if "small" in thing.tags:
        options += [("in", "in", "inner_small"), ("in", "in", "inner")]
    if "stand" in thing.tags:
        options.append(("next to", "neben", "opened"))
    en, de, tag = dice.pick(options)
    return choice.where(en, de, Common(dice.pick(nouns.TALK[tag])), case)


def _posture(noun):
    for tag in ("lie", "stand", "hang"):
        if tag in noun.tags:
            return tag
    return ""


def _position(dice):
    """Put the book on the table; it is on the table."""
    posture = dice.pick(("lie", "stand", "hang"))
    noun = dice.pick(nouns.TALK[posture])
    det = dice.weighted((("the", 5), ("your", 2), ("my", 2)))
    item = choice.with_adjective(dice, Common(noun, det), 0.25)
    if dice.chance(0.45):
        verb = verbs.special(
            {"lie": "liegen", "stand": "stehen", "hang": "hängen"}[posture], "be"
        )
        clause = Clause(verb, item, rest=_place(dice, noun, motion=False), talk=True)
        if dice.chance(0.3):
            return pair(*choice.question(clause), "?")
        # English says "is" for all three, so the past stays simple as well.
        return pair(
            *statement(clause, before=dice.pick(_FILLERS) if dice.chance(0.3) else ("", ""))
        )
    verb = verbs.special(
        {"lie": "legen", "stand": "stellen", "hang": "hängen"}[posture],
        "hang" if posture == "hang" else "put",
    )
    rest = _place(dice, noun, motion=True)
    if dice.chance(0.4):
        clause = Clause(verb, Pronoun(YOU), accusative=item, rest=rest, talk=True)
        return pair(english.imperative(clause), german.imperative(clause), "!")
    clause = Clause(verb, _subject(dice), accusative=item, rest=rest, talk=True)
    return pair(*statement(_told(dice, clause)))


def _command(dice):
    frames = [
        f for f in verbs.TALK if f.objects and not f.verb.stative and not f.verb.reflexive
    ]
    clause = _event(dice, frames, Pronoun(YOU))
    clause = replace(clause, negated=dice.chance(0.2))
    if not clause.negated and dice.chance(0.3):
        clause = replace(clause, time=dice.pick(words.TALK_FUTURE))
    if dice.chance(0.25):
        name = dice.pick(words.FIRST_NAMES)
        en, de = english.imperative(clause), german.imperative(clause)
        return pair(f"{name.en}, {en}", f"{name.de}, {de}", "!")
    return pair(english.imperative(clause), german.imperative(clause), "!")


def _trip(dice):
    """Going, driving and flying; German asks whether it is a city or a building."""
    kind = dice.pick(("city", "outing", "home", "person"))
    subject = _subject(dice)
    if kind == "city":
        verb, rest = dice.pick(("fahren", "fliegen", "umziehen")), choice.to_city(dice)
    elif kind == "outing":
        verb = "gehen"
        rest = choice.where("to", "in", Common(dice.pick(nouns.TALK["outing"])), "acc")
    elif kind == "home":
        verb, rest = dice.pick(
            (
                ("gehen", Adjunct("home", "nach Hause")),
                ("bleiben", Adjunct("at home", "zu Hause")),
            )
        )
    else:
        verb, rest = "gehen", choice.where("to", "zu", _person(dice, subject, pronoun=0), "dat")
    clause = Clause(verbs.special(verb), subject, rest=rest, talk=True)
    if dice.chance(0.25):
        clause = replace(
            _told(dice, replace(clause, subject=Pronoun(YOU)), front=False), negated=False
        )
        return pair(*choice.question(clause), "?")
    return pair(*statement(_told(dice, clause)))


def _living(dice):
    """I've been living in Berlin for three years; German uses the present."""
    subject = _subject(dice)
    kind = dice.pick(("wohnen", "arbeiten"))
    verb = (
        verbs.special("wohnen")
        if kind == "wohnen"
        else verbs.frame("arbeiten", table=verbs.TALK).verb
    )
    place = choice.in_city(dice)
    unit = nouns.UNITS[dice.pick(("week", "month", "year"))]
    span = Common(unit, "", plural=True, count=choice.count(dice, high=30, digits=0.0))
    clause = Clause(verb, subject, talk=True, rest=place)
    since = german.prepositional("seit", span, "dat")
    de = german.clause(replace(clause, time=Adjunct("", since)))
    been = Clause(_SEIN, subject, tense="perfect", talk=True)
    en = f"{english.clause(been)} {verb.en_ing} {place.en} for {english.phrase(span)}"
    return pair(en, de)


def _age(dice):
    subject = _subject(dice)
    n = dice.between(2, 99)
    rest = Adjunct(f"{numbers.english(n)} years old", f"{numbers.german(n)} Jahre alt")
    clause = Clause(_SEIN, subject, rest=rest, talk=True)
    return pair(
        *statement(clause, before=dice.pick(_FILLERS) if dice.chance(0.4) else ("", ""))
    )


def _starts(dice):
    noun = dice.pick(nouns.TALK["starts"])
    verb = verbs.special(dice.pick(("anfangen", "aufhören")))
    clause = Clause(
        verb,
        Common(noun, dice.weighted((("the", 4), ("your", 1)))),
        time=_clock(dice),
        talk=True,
    )
    if dice.chance(0.5):
        clause = replace(clause, tense="past")
    else:
        clause = replace(clause, simple=True)
    if dice.chance(0.3):
        return pair(*choice.question(clause), "?")
    return pair(
        *statement(clause, before=dice.pick(_FILLERS) if dice.chance(0.3) else ("", ""))
    )


def _liking(dice):
    """I like the jacket: in German the jacket pleases me."""
    person = _subject(dice)
    kind = dice.pick(("liked", "food", "drink"))
    item = _thing(dice, (kind,), person)
    if isinstance(item, Common) and (item.det in ("", "a") or item.count):
        item = replace(item, det="the", count=None)
    verb = verbs.special("gefallen" if kind == "liked" else "schmecken")
    negated = dice.chance(0.25)
    spoken = Clause(verb, person, accusative=item, negated=negated, talk=True)
    asks = person.person == YOU or dice.chance(0.15)
    en = english.clause(spoken, question=asks)
    said = Clause(verb, item, dative=person, negated=negated, talk=True)
    if asks:
        return pair(en, german.clause(said, order="first"), "?")
    if isinstance(person, Pronoun):
        return pair(en, german.clause(said))
    # A noun in the dative opens the sentence: "Meinem Bruder gefällt der Film."
    opening = Adjunct("", german.phrase(person, "dat"))
    return pair(en, german.clause(replace(said, dative=None, opening=opening, front="opening")))


def _feeling(dice):
    """Set phrases: I'm hungry, I'm cold, I'm afraid of the dog."""
    subject = _subject(dice)
    kind = dice.pick(
        (
            "hungry/Hunger",
            "thirsty/Durst",
            "right/recht",
            "afraid",
            "in a hurry/es eilig",
            "tired",
            "lucky/Glück",
        )
    )
    if kind == "afraid":
        of = _thing(dice, ("pet", "visited"), subject)
        rest = Adjunct(
            f"afraid of {english.phrase(of)}", f"Angst {german.prepositional('vor', of, 'dat')}"
        )
        haben = True
    elif kind == "tired":
        en, de = dice.pick(
            (
                ("tired", "müde"),
                ("ill", "krank"),
                ("happy", "glücklich"),
                ("angry", "wütend"),
                ("alone", "allein"),
            )
        )
        rest, haben = Adjunct(en, de), False
    else:
        rest, haben = Adjunct(*kind.split("/")), True
    tense = dice.pick(("present", "past"))
    time = _past_time(dice) if tense == "past" and dice.chance(0.5) else None
    front = "time" if time and dice.chance(0.4) else ""
    said = Clause(_SEIN, subject, rest=rest, tense=tense, time=time, front=front, talk=True)
    in_german = replace(said, verb=verbs.special("haben")) if haben else said
    if dice.chance(0.2):
        said, in_german = (replace(c, front="") for c in (said, in_german))
        return pair(choice.question(said)[0], choice.question(in_german)[1], "?")
    filler = dice.pick(_FILLERS) if dice.chance(0.4) else ("", "")
    return pair(statement(said, before=filler)[0], statement(in_german, before=filler)[1])


def _because(dice):
    """A purchase and its reason; the pronoun has the gender of the German noun."""
    subject = _subject(dice)
    noun = dice.pick(nouns.TALK["buy"])
    item = _thing(dice, (dice.pick(noun.tags[:1]),), subject)
    if not isinstance(item, Common):
        return None
    item = replace(item, adjective=None)
    verb = verbs.frame(
        dice.pick(("kaufen", "verkaufen", "reparieren", "verlieren", "finden")),
        table=verbs.TALK,
    )
    if not set(item.noun.tags) & set(verb.objects[0][1]):
        return None
    main = Clause(
        verb.verb, subject, accusative=item, tense="past", negated=dice.chance(0.3), talk=True
    )
    quality = dice.pick(
        [a for a in words.fitting(item.noun) if a.en not in ("planned", "French", "German")]
    )
    too = dice.pick((("", ""), ("too ", "zu ")))
    why = Clause(
        _SEIN,
        choice.refer(item, thing=True),
        tense="past",
        talk=True,
        rest=Adjunct(too[0] + quality.en, too[1] + quality.de),
    )
    en, de = statement(main)
    sub = choice.subordinate("because", "weil", why)
    return pair(f"{en} {sub[0]}", f"{de}, {sub[1]}")


def _lost(dice):
    """Where is it? I cannot find it."""
    noun = dice.pick(nouns.TALK[dice.pick(("thing", "thing", "pet"))])
    det = dice.weighted((("the", 3), ("my", 3), ("your", 2)))
    item = Common(noun, det, plural=dice.chance(0.15))
    again = choice.refer(item, thing=True)
    verb = verbs.frame(dice.pick(("finden", "suchen", "brauchen")), table=verbs.TALK).verb
    subject = dice.weighted(
        ((Pronoun(I), 3), (Pronoun(WE), 1), (dice.pick(words.FIRST_NAMES), 1))
    )
    clause = Clause(verb, subject, accusative=again, talk=True)
    if verb.infinitive == "finden":
        clause = replace(clause, modal="can", negated=True)
    be = "are" if item.plural else "is"
    sind = "sind" if item.plural else "ist"
    en, de = pair(*statement(clause))
    return (
        choice.sentence(f"where {be} {english.phrase(item)}", "?") + " " + en,
        choice.sentence(f"wo {sind} {german.phrase(item, 'nom')}", "?") + " " + de,
    )


def _condition(dice):
    """If you have time, ...: the German main clause begins with its verb."""
    first = dice.pick(
        (Pronoun(YOU), Pronoun(YOU), Pronoun(I), Pronoun(IT, "m"), Pronoun(IT, "f"))
    )
    if dice.chance(0.4):
        inner = Clause(
            verbs.special("haben"),
            first,
            accusative=Common(dice.pick(nouns.TALK["had"]), ""),
            simple=True,
            talk=True,
            negated=dice.chance(0.2),
        )
    else:
        inner = replace(_event(dice, verbs.TALK, first), simple=True)
    main = _event(dice, verbs.TALK, dice.pick((Pronoun(I), Pronoun(WE), Pronoun(YOU))))
    if main.verb == inner.verb:
        return None
    if main.verb.stative or dice.chance(0.5):
        main = replace(main, modal=dice.pick(("can", "have to", "should")))
    else:
        main = replace(main, tense="future")
    if dice.chance(0.5):
        return pair(*choice.behind(choice.subordinate("if", "wenn", inner), main))
    en, de = statement(main)
    sub = choice.subordinate("if", "wenn", inner)
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
    inner = _told(dice, _event(dice), front=False)
    en, de = choice.subordinate(*opener, inner)
    return pair(en, de, "?" if opener[0].startswith("do ") else ".")


def _relative(dice):
    """The jacket that I bought yesterday is too small."""
    frame = dice.pick([f for f in _TRANSITIVE if "kin" not in f.objects[0][1]])
    noun = dice.pick(nouns.TALK[dice.pick(frame.objects[0][1])])
    fitting = words.fitting(noun)
    if not fitting or "mass" in noun.tags or frame.verb.infinitive == "verlieren":
        return None
    plural = dice.chance(0.15)
    inner = choice.fill(
        frame, subject=_subject(dice), objects=[Relative(noun, plural)], talk=True
    )
    inner = replace(inner, tense="past", time=_past_time(dice) if dice.chance(0.6) else None)
    quality = dice.pick(fitting)
    too = dice.pick((("", ""), ("too ", "zu "), ("very ", "sehr ")))
    subject = Common(noun, "the", plural, None, None, None, inner)
    tense = dice.pick(("present", "past"))
    main = Clause(
        _SEIN,
        subject,
        tense=tense,
        talk=True,
        rest=Adjunct(too[0] + quality.en, too[1] + quality.de),
    )
    return pair(*statement(main))


def _having(dice):
    """Having and not having: kein."""
    subject = _subject(dice)
    noun = dice.pick(nouns.TALK[dice.pick(("countable", "had"))])
    item = Common(noun, "" if "mass" in noun.tags else "a")
    item = choice.with_adjective(dice, item, 0.3)
    clause = Clause(
        verbs.special("haben"),
        subject,
        accusative=item,
        negated=dice.chance(0.6),
        talk=True,
        tense=dice.pick(("present", "present", "past")),
    )
    if dice.chance(0.25):
        clause = replace(clause, subject=Pronoun(YOU), negated=False)
        return pair(*choice.question(clause), "?")
    return pair(
        *statement(clause, before=dice.pick(_FILLERS) if dice.chance(0.3) else ("", ""))
    )


def _belongs(dice):
    noun = dice.pick(nouns.TALK["thing"])
    item = choice.with_adjective(dice, Common(noun, dice.pick(("the", "this"))), 0.4)
    clause = Clause(
        verbs.special("gehören"), item, dative=_person(dice, item, pronoun=0.3), talk=True
    )
    if dice.chance(0.3):
        return pair(*choice.question(clause), "?")
    return pair(*statement(replace(clause, negated=dice.chance(0.2))))


PATTERNS = (
    (_simple, 26),
    (_asked, 11),
    (_who, 3),
    (_position, 8),
    (_command, 6),
    (_trip, 8),
    (_living, 3),
    (_age, 2),
    (_starts, 3),
    (_liking, 5),
    (_feeling, 5),
    (_because, 5),
    (_lost, 3),
    (_condition, 6),
    (_opinion, 8),
    (_relative, 6),
    (_having, 4),
    (_belongs, 3),
)

__all__ = ["PATTERNS", "Name"]
