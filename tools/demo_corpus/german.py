"""German: noun phrases and clauses; the tables are in inflection.py."""

from __future__ import annotations

from dataclasses import replace

from . import inflection
from .meaning import YOU_FORMAL, Asked, Common, Name, Pronoun, Relative

_CONTRACTED = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("bei", "dem"): "beim",
    ("von", "dem"): "vom",
}
# The German modal in the affirmative; "must not" is a prohibition and takes another verb.
_MODALS = {
    "can": "können",
    "must": "müssen",
    "have to": "müssen",
    "want": "wollen",
    "should": "sollen",
    "would like": "mögen",
    "may": "dürfen",
}


def phrase(item, case, *, negated=False):
    """The words of a phrase in a case: nom, acc, dat or gen; `negated` turns ein into kein."""
    if isinstance(item, Common):
        return _common(item, case, negated=negated)
    if isinstance(item, Name):
        return item.oblique if item.oblique and case != "nom" else item.de
    if isinstance(item, Asked):
        return dict(item.de)[case]
    if isinstance(item, Relative):
        gender = "p" if item.plural else item.noun.gender
        return inflection.relative_pronoun(gender, case)
    return inflection.pronoun(item.person, item.gender, case)


def _common(item, case, *, negated):
    gender = "p" if item.plural else item.noun.gender
    det = item.det
    if negated and det in ("a", ""):
        det = "no"
    words = [inflection.determiner(det, gender, case)]
    if item.count:
        words.append(item.count[1])
    if item.adjective:
        words.append(item.adjective.stem + inflection.ending(det, gender, case))
    words.append(inflection.noun(item.noun, case, plural=item.plural))
    if item.of:
        # A name takes no genitive ending behind its noun: "von" does the work.
        common = isinstance(item.of, Common)
        words.append(phrase(item.of, "gen") if common else f"von {phrase(item.of, 'dat')}")
    if item.relative:
        words.append(f", {clause(item.relative, order='final')} ,")
    return " ".join(word for word in words if word)


def prepositional(preposition, item, case):
    """A preposition with its phrase, contracted where German does (in dem -> im)."""
    words = phrase(item, case).split(" ")
    if isinstance(item, Common) and item.det in ("the", "generic"):
        short = _CONTRACTED.get((preposition, words[0]))
        if short:
            return " ".join([short, *words[1:]])
    return " ".join([preposition, *words])


def _verbs(item):
    """The finite verb, its separable prefix and the other verbs as they end a clause."""
    verb, person = item.verb, item.subject.person
    joined = verb.prefix + verb.infinitive
    # Speech puts the past in the perfect, except for these few; news in the preterite.
    spoken = item.talk or person == YOU_FORMAL
    perfect = item.tense == "perfect" or (
        item.tense == "past"
        and spoken
        and not (item.modal or item.passive or verb.infinitive in ("sein", "haben", "kennen"))
    )
    future = item.tense == "future" and not item.talk
    tense = "past" if item.tense == "past" else "present"
    if item.modal:
        modal = _MODALS[item.modal]
        if item.negated and item.modal == "must" and tense == "present":
            modal = "dürfen"
        inner = [verb.participle, "werden"] if item.passive else [joined]
        return inflection.auxiliary(modal, person, tense), "", inner
    if item.passive:
        if perfect:
            ends = [verb.participle, "worden"]
            return inflection.auxiliary("sein", person, "present"), "", ends
        ends = [verb.participle, "werden"] if future else [verb.participle]
        tense = "present" if future else tense
        return inflection.auxiliary("werden", person, tense), "", ends
    if perfect:
        helper = "sein" if verb.with_sein else "haben"
        return inflection.auxiliary(helper, person, "present"), "", [verb.participle]
    if future:
        return inflection.auxiliary("werden", person, "present"), "", [joined]
    return inflection.finite(verb, person, tense), verb.prefix, []


def _pronouns(item):
    """The light pronouns before and behind a subject that stands behind the verb.

    A noun lets them pass: "Gestern hat sich der Minister ...", "Morgen hilft mir mein Bruder".
    """
    reflexive = [inflection.reflexive(item.subject.person)] if item.verb.reflexive else []
    direct = [phrase(p, "acc") for p in (item.accusative,) if isinstance(p, Pronoun)]
    receiver = [phrase(p, "dat") for p in (item.dative,) if isinstance(p, Pronoun)]
    if isinstance(item.subject, Common | Name):
        return reflexive + receiver, direct
    return [], reflexive + direct + receiver


def _indefinite(item):
    """Whether a phrase is new in the talk, so that it stands late and takes kein for nicht."""
    return isinstance(item, Common) and item.det in ("a", "")


def _middle(item):
    """What stands between the pronouns and the final verbs, from known to new."""
    dative, accusative = [], []
    kein = False
    if isinstance(item.accusative, Common | Name):
        kein = item.negated and _indefinite(item.accusative)
        accusative = [phrase(item.accusative, "acc", negated=kein)]
    if isinstance(item.dative, Common | Name):
        dative = [phrase(item.dative, "dat")]
    known = not _indefinite(item.accusative)
    time = [item.time.de] if item.time and item.front != "time" else []
    place = [item.place.de] if item.place and item.front != "place" else []
    adverb = [item.adverb.de] if item.adverb else []
    agent = [prepositional("von", item.agent, "dat")] if item.agent else []
    words = time + dative + place + agent
    words += accusative + adverb if known else adverb + accusative
    if item.negated and not kein:
        words.append("nicht")
    if item.object and not isinstance(item.object, Relative | Asked):
        words.append(
            prepositional(item.object_preposition[0], item.object, item.object_preposition[1])
        )
    if item.rest and item.front != "rest":
        words.append(item.rest.de)
    return words


def _moved(item):
    """A relative pronoun or question word that is not the subject, with its preposition."""
    for part, case in ((item.accusative, "acc"), (item.dative, "dat")):
        if isinstance(part, Relative | Asked):
            return phrase(part, case)
    if isinstance(item.object, Relative | Asked):
        preposition, case = item.object_preposition
        return prepositional(preposition, item.object, case)
    return ""


def clause(item, *, order="second"):
    """A clause as German words.

    order: "second" (main clause), "first" (yes-no question; also behind a fronted clause),
    "final" (subordinate clause) or "infinitive" ("den Plan abzulehnen").
    """
    if order == "infinitive":
        # A separable verb takes the "zu" in its middle.
        zu = f"{item.verb.prefix}zu" if item.verb.prefix else "zu "
        return " ".join([*_pronouns(item)[1], *_middle(item), zu + item.verb.infinitive])
    known = item.accusative
    if order == "second" and isinstance(known, Common) and known.relative:
        # A relative clause waits for the last verb: "lehnte den Plan ab, den ...".
        main = clause(replace(item, accusative=replace(known, relative=None)))
        return f"{main}, {clause(known.relative, order='final')}"
    finite, prefix, ends = _verbs(item)
    subject, middle, moved = phrase(item.subject, "nom"), _middle(item), _moved(item)
    before, behind = _pronouns(item)
    field = [*before, subject, *behind, *middle, *ends]
    if order == "final":
        # The finite verb comes last and takes its prefix back: "ablehnt".
        words = [moved, *field, prefix + finite]
    elif order == "first":
        words = [finite, *field, prefix]
    elif moved or item.front:
        words = [moved or getattr(item, item.front).de, finite, *field, prefix]
    else:
        words = [subject, finite, *before, *behind, *middle, *ends, prefix]
    return " ".join(word for word in words if word)


def imperative(item):
    """A command to a friend: "Leg das Buch auf den Tisch", "Ruf mich an"."""
    pronouns = _pronouns(item)[1]
    words = [inflection.imperative(item.verb), *pronouns, *_middle(item), item.verb.prefix]
    return " ".join(word for word in words if word)
