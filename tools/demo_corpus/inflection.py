"""German inflection: articles, adjective endings, nouns, pronouns and verbs.

Gender is m, f, n or p (plural of any gender); case is nom, acc, dat or gen.
"""

from __future__ import annotations

import re

from .meaning import IT

_CASES = ("nom", "acc", "dat", "gen")


def _table(rows):
    """A table written as gender: forms in the order of the cases."""
    return {
        (gender, case): form
        for gender, forms in rows.items()
        for case, form in zip(_CASES, forms.split(), strict=True)
    }


_THE = _table(
    {
        "m": "der den dem des",
        "f": "die die der der",
        "n": "das das dem des",
        "p": "die die den der",
    }
)
_THIS = _table(
    {
        "m": "dieser diesen diesem dieses",
        "f": "diese diese dieser dieser",
        "n": "dieses dieses diesem dieses",
        "p": "diese diese diesen dieser",
    }
)
_RELATIVE = _table(
    {
        "m": "der den dem dessen",
        "f": "die die der deren",
        "n": "das das dem dessen",
        "p": "die die denen deren",
    }
)
_EIN = _table({"m": "- en em es", "f": "e e er er", "n": "- - em es", "p": "e e en er"})
_WEAK = _table({"m": "e en en en", "f": "e e en en", "n": "e e en en", "p": "en en en en"})
_MIXED = _table({"m": "er en en en", "f": "e e en en", "n": "es es en en", "p": "en en en en"})
_STRONG = _table({"m": "er en em en", "f": "e e er er", "n": "es es em en", "p": "e e en er"})
_EIN_WORDS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "dein",
    "your_formal": "Ihr",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
}


def determiner(det, gender, case):
    """The article or possessive; empty for a bare noun and for the plural of ein."""
    if det in ("the", "generic"):
        return _THE[gender, case]
    if det == "this":
        return _THIS[gender, case]
    if det == "" or (det == "a" and gender == "p"):
        return ""
    if det.endswith("'s"):
        return det[:-2] + "s"  # Annas Bruder
    return _EIN_WORDS[det] + _EIN[gender, case].strip("-")


def ending(det, gender, case):
    """The adjective's ending: weak behind der, mixed behind ein, strong behind nothing."""
    if det in ("the", "generic", "this"):
        return _WEAK[gender, case]
    if det == "" or det.endswith("'s") or (det == "a" and gender == "p"):
        return _STRONG[gender, case]
    return _MIXED[gender, case]


def relative_pronoun(gender, case):
    """The relative pronoun, which agrees with its noun in gender and number."""
    return _RELATIVE[gender, case]


def noun(item, case, *, plural=False):
    """The form of a noun: -n in the dative plural, -s in the genitive, weak nouns -(e)n."""
    if plural:
        takes_n = case == "dat" and not item.de_plural.endswith(("n", "s"))
        return item.de_plural + ("n" if takes_n else "")
    if item.weak and case != "nom":
        if item.de == "Herr" or item.de.endswith(("e", "ar")):
            return item.de + "n"
        return item.de + "en"
    if case == "gen" and item.gender in "mn":
        if item.de.endswith("nis"):
            return item.de + "ses"
        return item.de + ("es" if item.de.endswith(("s", "ß", "z", "x", "sch")) else "s")
    return item.de


_PRONOUNS = {
    "nom": "ich du er wir ihr sie Sie",
    "acc": "mich dich ihn uns euch sie Sie",
    "dat": "mir dir ihm uns euch ihnen Ihnen",
}
_THIRD = {"f": {"nom": "sie", "acc": "sie", "dat": "ihr"}, "n": {"nom": "es", "acc": "es"}}


def pronoun(person, gender, case):
    """A personal pronoun; in the third person it takes the gender of its German noun."""
    if person == IT and case in _THIRD.get(gender, {}):
        return _THIRD[gender][case]
    return _PRONOUNS[case].split()[person]


def reflexive(person):
    """The reflexive pronoun in the accusative."""
    return "mich dich sich uns euch sich sich".split()[person]


_PRESENT = {
    "sein": "bin bist ist sind seid sind",
    "haben": "habe hast hat haben habt haben",
    "werden": "werde wirst wird werden werdet werden",
    "können": "kann kannst kann können könnt können",
    "müssen": "muss musst muss müssen müsst müssen",
    "wollen": "will willst will wollen wollt wollen",
    "dürfen": "darf darfst darf dürfen dürft dürfen",
    # These two give advice and wishes, so German uses the subjunctive.
    "sollen": "sollte solltest sollte sollten solltet sollten",
    "mögen": "möchte möchtest möchte möchten möchtet möchten",
    "wissen": "weiß weißt weiß wissen wisst wissen",
}
_PAST = {
    "sein": "war warst war waren wart waren",
    "haben": "hatte hattest hatte hatten hattet hatten",
    "werden": "wurde wurdest wurde wurden wurdet wurden",
    "können": "konnte konntest konnte konnten konntet konnten",
    "müssen": "musste musstest musste mussten musstet mussten",
    "wollen": "wollte wolltest wollte wollten wolltet wollten",
    "dürfen": "durfte durftest durfte durften durftet durften",
    "sollen": "sollte solltest sollte sollten solltet sollten",
}


def auxiliary(verb, person, tense):
    """A finite form of sein, haben, werden, wissen or a modal verb."""
    forms = (_PAST if tense == "past" else _PRESENT)[verb].split()
    return forms[min(person, 5)]  # the formal Sie has the forms of the plural


def stem(infinitive):
    """What is left of an infinitive without -en or -n."""
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]


def needs_e(base):
    """Whether -t and -st need an e before them: arbeit-e-t, öffn-e-t, but wohn-t."""
    return bool(re.search(r"([td]|[^aeiouäöülrhmn][mn]|ch[mn])$", base))


def second_person(er):
    """The du-form from the er-form: gibt, gibst; but liest, liest."""
    base = er.removesuffix("t")
    return base + ("t" if base.endswith(("s", "ß", "z", "x")) else "st")


def regular_parts(infinitive, prefix):
    """The principal parts (du, er, preterite, participle) of a weak verb."""
    base = stem(infinitive)
    e = "e" if needs_e(base) else ""
    bare = infinitive.endswith("ieren") or re.match(
        r"(be|emp|ent|er|ge|miss|ver|zer|über|unter)", infinitive
    )
    ge = "" if bare else "ge"
    er = f"{base}{e}t"
    return second_person(er), er, f"{base}{e}te", f"{prefix}{ge}{base}{e}t"


def finite(verb, person, tense):
    """A finite form of a verb, without its separable prefix."""
    if verb.infinitive in _PRESENT and (tense != "past" or verb.infinitive in _PAST):
        return auxiliary(verb.infinitive, person, tense)
    person = min(person, 5)
    if tense == "past":
        past = verb.preterite
        endings = (
            ("", "st", "", "n", "t", "n")
            if past.endswith("e")
            else ("", "st", "", "en", "t", "en")
        )
        return past + endings[person]
    base = stem(verb.infinitive)
    ihr = base + ("et" if needs_e(base) else "t")
    return (base + "e", verb.du, verb.er, verb.infinitive, ihr, verb.infinitive)[person]


def imperative(verb):
    """The command to one friend: nimm, lies, fahr, warte."""
    base = stem(verb.infinitive)
    regular = base + ("et" if needs_e(base) else "t")
    if verb.er != regular and "ä" not in verb.er:
        return verb.er[:-1]  # e becomes i: nehmen, nimmt, nimm
    return base + ("e" if needs_e(base) or verb.infinitive.endswith("ern") else "")
