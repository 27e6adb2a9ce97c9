"""English: inflection, noun phrases and clauses."""

from __future__ import annotations

import re

from .meaning import IT, Asked, Common, Name, Pronoun, Relative

_BE = {"present": "am are is are are are are", "past": "was were was were were were were"}
_SUBJECT = "I you he we you they you".split()
_OBJECT = "me you him us you them you".split()
_FEMALE = {"he": "she", "him": "her"}
# A modal is what is said before the infinitive, in the present and in the past.
_MODALS = {
    "can": ("can", "could"),
    "must": ("must", "have to"),
    "have to": ("have to", "have to"),
    "want": ("want to", "want to"),
    "should": ("should", "should"),
    "would like": ("would like to", "would like to"),
    "may": ("be allowed to", "be allowed to"),
}
_AUXILIARIES = {"be", "have", "will", "can", "could", "must", "should", "would", "do"}
_SHORT = {
    "am": "'m",
    "are": "'re",
    "is": "'s",
    "have": "'ve",
    "has": "'s",
    "will": "'ll",
    "would": "'d",
}
_SHORT_NOT = {"can": "can't", "will": "won't", "am": "am not"}


def third_person(base):
    """The third person singular of a present tense: goes, carries, reads."""
    if base in ("have", "be", "do", "go"):
        return {"have": "has", "be": "is", "do": "does", "go": "goes"}[base]
    if re.search(r"(s|x|z|ch|sh)$", base):
        return base + "es"
    if re.search(r"[^aeiou]y$", base):
        return base[:-1] + "ies"
    return base + "s"


def regular_past(base):
    """The past tense and participle of a regular verb: raised, carried, called."""
    if base.endswith("e"):
        return base + "d"
    if re.search(r"[^aeiou]y$", base):
        return base[:-1] + "ied"
    return base + "ed"


def regular_ing(base):
    """The ing-form of a verb that doubles no consonant: closing, seeing, calling."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith("ee"):
        return base[:-1] + "ing"
    return base + "ing"


def article(following):
    """A or an, by the sound of the words that follow."""
    sounds_like_consonant = re.match(r"(uni|eu|use|one)", following, re.IGNORECASE)
    vowel = following[0].lower() in "aeiou" and not sounds_like_consonant
    return "an" if vowel or following.startswith(("hour", "honest")) else "a"


def phrase(item, *, subject=False, negated=False):
    """The words of a phrase; `negated` turns a bare noun into "any money"."""
    if isinstance(item, Common):
        return _common(item, negated=negated)
    if isinstance(item, Name | Asked):
        return item.en
    if isinstance(item, Relative):
        person = {"kin", "official", "speaker", "group", "visited"} & set(item.noun.tags)
        return "who" if person else "that"
    if item.person == IT and item.thing:
        return "it"
    word = (_SUBJECT if subject else _OBJECT)[item.person]
    return _FEMALE.get(word, word) if item.gender == "f" and item.person == IT else word


def _common(item, *, negated):
    words = [item.count[0]] if item.count else []
    if item.adjective:
        words.append(item.adjective.en)
    words.append(item.noun.en_plural if item.plural else item.noun.en)
    text = " ".join(words)
    if item.det == "a" and not item.plural:
        text = f"{article(text)} {text}"
    elif item.det in ("", "a") and negated:
        text = f"any {text}"
    elif item.det == "this":
        text = f"{'these' if item.plural else 'this'} {text}"
    elif item.det not in ("", "a", "generic"):
        # "your" has a formal twin in German only.
        text = f"{item.det.split('_')[0]} {text}"
    if item.of:
        text += f" of {phrase(item.of)}"
    if item.relative:
        text += f" {clause(item.relative)}"
    return text


def _finite(base, *, person, tense, past=None):
    """The finite form of a verb given by its base form."""
    if base == "be":
        return _BE["past" if tense == "past" else "present"].split()[person]
    if base in ("will", "can", "could", "must", "should", "would"):
        return base
    if tense == "past":
        return past or {"have": "had", "do": "did", "want": "wanted"}[base]
    return third_person(base) if person == IT else base


def _verbs(item, *, question):
    """The finite verb, its base form, and the other verbs of a clause in their order."""
    verb = item.verb
    progressive = (
        item.talk
        and item.tense == "present"
        and not (item.simple or item.modal or item.passive or verb.stative)
        and not (item.time and item.time.habitual)
        and not (item.adverb and item.adverb.habitual)
    )
    parts = []  # base forms and finished words; the first becomes finite
    if item.modal:
        parts = _MODALS[item.modal][item.tense == "past"].split()
    elif item.tense == "future":
        parts = ["will"]
    elif item.tense == "perfect":
        parts = ["have"]
    if item.passive:
        parts.append("been" if item.tense == "perfect" else "be")
        parts.append(verb.en_participle)
    elif progressive:
        parts += ["be", verb.en_ing]
    elif item.tense == "perfect" and not item.modal:
        parts.append(verb.en_participle)
    else:
        parts.append(verb.en)
    lexical_have = parts[0] == "have" and (item.modal or len(parts) == 1)
    if (question or item.negated) and (parts[0] not in _AUXILIARIES or lexical_have):
        parts.insert(0, "do")
    base, person = parts[0], item.subject.person
    finite = _finite(
        base, person=person, tense=item.tense, past=verb.en_past if base == verb.en else None
    )
    return finite, base, parts[1:]


def _negate(finite, *, talk, fused):
    """The finite verb with its "not"; `fused` when the subject has swallowed the verb."""
    if not talk:
        return "cannot" if finite == "can" else f"{finite} not"
    if fused or finite == "am":
        return f"{finite} not"
    return _SHORT_NOT.get(finite, f"{finite}n't")


def _open_verbs(item, *, subject, finite, base, question):
    """The beginning of a clause: subject and finite verb with negation and contraction."""
    if question and item.negated and not item.talk:
        return [finite, subject, "not"]
    if question:
        return [_negate(finite, talk=True, fused=False) if item.negated else finite, subject]
    can_fuse = base in ("be", "will", "would") or (base == "have" and item.tense == "perfect")
    fuses = item.talk and isinstance(item.subject, Pronoun) and can_fuse and finite in _SHORT
    # "I'm not" fuses with the subject, "he isn't" and "we won't" with the negation.
    if fuses and (not item.negated or finite == "am"):
        return [subject + _SHORT[finite]] + (["not"] if item.negated else [])
    if item.negated:
        return [subject, _negate(finite, talk=item.talk, fused=False)]
    return [subject, finite]


def _objects(item, verbs):
    """The verb's last word, its objects and its particle, in English order."""
    verb, words = item.verb, list(verbs)
    told = [item.dative, item.accusative, item.object]
    told = [p for p in told if p is not None and not isinstance(p, Relative | Asked)]
    said = [phrase(p, negated=item.negated and p is item.accusative) for p in told]
    if verb.en_tail:
        words.append(verb.en_tail)
    if verb.en_particle:
        passes = len(told) == 1 and isinstance(told[0], Pronoun)
        said.insert(1 if passes else 0, verb.en_particle)
    return words + said


def clause(item, *, question=False, infinitive=False):
    """A clause as English words; `infinitive` gives "to reject the plan"."""
    if infinitive:
        return " ".join(["to", *_objects(item, [item.verb.en]), *_adjuncts(item)])
    asked = [p for p in (item.accusative, item.dative, item.object) if isinstance(p, Asked)]
    moved = [p for p in (item.accusative, item.object) if isinstance(p, Relative)]
    inverts = question and not isinstance(item.subject, Asked)
    finite, base, verbs = _verbs(item, question=inverts)
    subject = phrase(item.subject, subject=True)
    words = [phrase(p) for p in asked + moved]
    fronted = getattr(item, item.front) if item.front else None
    if fronted:
        set_off = " " in fronted.en or fronted.en.endswith("ly")
        comma = "," if set_off and not question else ""
        words.append(fronted.en + comma)
    words += _open_verbs(item, subject=subject, finite=finite, base=base, question=inverts)
    if item.adverb:
        # "already" stands behind the finite auxiliary, "often" before a finite main verb.
        lexical = base not in _AUXILIARIES or (base == "have" and not verbs)
        words.insert(len(words) - (1 if lexical and not item.negated else 0), item.adverb.en)
    words = words[:-1] + _objects(item, words[-1:] + verbs)
    return " ".join(words + _adjuncts(item))


def _adjuncts(item):
    """What follows the objects: agent, direction, place and time, unless fronted."""
    words = [f"by {phrase(item.agent)}"] if item.agent else []
    for part in ("rest", "place", "time"):
        adjunct = getattr(item, part)
        if adjunct and item.front != part:
            words.append(adjunct.en)
    return words


def imperative(item):
    """A command: "Put the book on the table", "Don't forget the key"."""
    words = ["don't"] if item.negated else []
    return " ".join(words + _objects(item, [item.verb.en]) + _adjuncts(item))
