"""The verbs with what can be their subject and objects.

A line is "english (past participle [ing]) | German ([du] er preterite participle) | subjects |
objects". In the English, ~ marks a verb without progressive, _ a particle that lets a pronoun
pass (turn _off); further words stay with the verb (wait for). In the German, + follows a
separable prefix and * marks the perfect with sein. Regular forms are left out. An object is
"acc:tags", "dat:tags" or "preposition+case:tags", with tags of nouns.py joined by commas.
A line that begins with ! tells of a moment (no "I'm finding"), one with ? of something that
nobody does on purpose (no "I want to cry").
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from . import english, inflection
from .meaning import Verb

_NEWS = """
reject | ab+lehnen | org official judging | acc:paper,paper,project
present | vor+stellen | org official | acc:draft,project,published,lawful
accept | an+nehmen (nimmt nahm angenommen) | org official | acc:paper,ruling
announce | an+kündigen | org official | acc:project,ruling
criticise | kritisieren | org official group | acc:paper,ruling,lawful,lawmaker,published
support | unterstützen | org official group | acc:draft,project,group
examine | prüfen | org judging | acc:paper
sign | unterzeichnen | author official firm | acc:signed
publish | veröffentlichen | author firm | acc:published
change | ändern | lawmaker | acc:lawful
pass | verabschieden | lawmaker | acc:lawful
prepare | vor+bereiten | author official | acc:project,attended
postpone | verschieben (verschiebt verschob verschoben) | org judging | acc:event,project
carry _out | durch+führen | author builder | acc:project
withdraw (withdrew withdrawn) | zurück+ziehen (zieht zog zurückgezogen) | author | acc:draft
defend | verteidigen | official | acc:draft,ruling,project,lawful
stop (stopped stopped stopping) | stoppen | lawmaker judging | acc:project
call for | fordern | author official group | acc:project,ruling
build (built built) | bauen | builder | acc:site
build (built built) | bauen | firm | acc:owned
open | eröffnen | official | acc:site
open | eröffnen | firm | acc:owned
close | schließen (schließt schloss geschlossen) | builder | acc:site
close | schließen (schließt schloss geschlossen) | firm | acc:owned
sell (sold sold) | verkaufen | firm | acc:owned
visit | besuchen | official | acc:toured
meet (met met) | treffen (trifft traf getroffen) | official | acc:official,group
fire | entlassen (entlässt entließ entlassen) | firm | acc:staff
hire | ein+stellen | firm | acc:staff
create | schaffen (schafft schuf geschaffen) | firm | acc:jobs
cut (cut cut cutting) | streichen (streicht strich gestrichen) | firm | acc:jobs
raise | erhöhen | lawmaker | acc:levy
raise | erhöhen | firm | acc:charge
lower | senken | lawmaker | acc:levy
lower | senken | firm | acc:charge
cut (cut cut cutting) | kürzen | lawmaker | acc:benefit
help | helfen (hilft half geholfen) | org official | dat:group,firm
agree to | zu+stimmen | org official | dat:paper,project
trust | vertrauen | group | dat:lawmaker,official
thank | danken | official | dat:group,official
offer | an+bieten (bietet bot angeboten) | firm | dat:striking acc:offered
promise | versprechen (verspricht versprach versprochen) | org | dat:group acc:project
warn of | warnen | official speaker author | vor+dat:danger
take part in (took taken) | teil+nehmen (nimmt nahm teilgenommen) | official | an+dat:attended
protest against | protestieren | group | gegen+acc:lawful,ruling,project
vote on | ab+stimmen | lawmaker | über+acc:paper,lawful
report on | berichten | speaker | über+acc:event,project
work on | arbeiten | author | an+dat:draft,published
wait for | warten | group author | auf+acc:ruling,published
negotiate with | verhandeln | author official | mit+dat:firm,group
resign | *zurück+treten (trittst tritt trat zurückgetreten) | official | -
go on strike (went gone) | streiken | striking | -
"""

_TALK = """
buy (bought bought) | kaufen | kin | acc:buy
!sell (sold sold) | verkaufen | kin | acc:repaired
look for | suchen | kin | acc:lost,sought
!find (found found) | finden (findet fand gefunden) | kin | acc:lost,sought
?lose (lost lost) | verlieren (verliert verlor verloren) | kin | acc:lost
~need | brauchen | kin | acc:thing,had
?forget (forgot forgotten forgetting) | vergessen (vergisst vergaß vergessen) | kin | acc:lost
!bring (brought brought) | mit+bringen (bringt brachte mitgebracht) | kin | acc:fetched
read (read read) | lesen (liest las gelesen) | kin | acc:read
eat (ate eaten) | essen (isst aß gegessen) | kin | acc:food
drink (drank drunk) | trinken (trinkt trank getrunken) | kin | acc:drink
cook | kochen | kin | acc:cooked
bake | backen (backt backte gebacken) | kin | acc:baked
wash | waschen (wäscht wusch gewaschen) | kin | acc:washed
repair | reparieren | kin | acc:repaired
watch | sehen (sieht sah gesehen) | kin | acc:watched
listen to | hören | kin | acc:heard
pay (paid paid) | bezahlen | kin | acc:paid
water | gießen (gießt goss gegossen) | kin | acc:watered
!open | auf+machen | kin | acc:opened
!close | zu+machen | kin | acc:opened
!turn _on | an+machen | kin | acc:device
!turn _off | aus+machen | kin | acc:device
put _on (put put putting) | an+ziehen (zieht zog angezogen) | kin | acc:wear
take _off (took taken) | aus+ziehen (zieht zog ausgezogen) | kin | acc:wear
try _on | an+probieren | kin | acc:wear
tidy _up | auf+räumen | kin | acc:tidied
pick _up | ab+holen | kin | acc:kin
call | an+rufen (ruft rief angerufen) | kin | acc:kin,visited
!invite | ein+laden (lädt lud eingeladen) | kin | acc:kin
visit | besuchen | kin | acc:kin
!meet (met met) | treffen (trifft traf getroffen) | kin | acc:kin
!ask | fragen | kin | acc:kin,visited
~know (knew known) | kennen (kennt kannte gekannt) | kin | acc:known,visited
~understand (understood understood) | verstehen (versteht verstand verstanden) | kin | acc:clear
plan (planned planned planning) | planen | kin | acc:planned
help | helfen (hilft half geholfen) | kin | dat:kin
!thank | danken | kin | dat:kin,visited
!give (gave given) | geben (gibt gab gegeben) | kin | dat:kin acc:small
!show (showed shown) | zeigen | kin | dat:kin acc:liked,small
!lend (lent lent) | leihen (leiht lieh geliehen) | kin | dat:kin acc:lent
!send (sent sent) | schicken | kin | dat:kin acc:written,liked
!tell (told told) | erzählen | kin | dat:kin acc:told
wait for | warten | kin | auf+acc:kin,ride
think about (thought thought) | denken (denkt dachte gedacht) | kin | an+acc:kin,awaited
talk to | sprechen (spricht sprach gesprochen) | kin | mit+dat:kin,visited
look forward to | sich freuen | kin | auf+acc:awaited,starts
complain about | sich beschweren | kin | über+acc:kin,ride
look after | auf+passen | kin | auf+acc:child,pet
sleep (slept slept) | schlafen (schläft schlief geschlafen) | kin pet | -
!get up (got got getting) | *auf+stehen (steht stand aufgestanden) | kin | -
?wake up (woke woken) | *auf+wachen | kin | -
?fall asleep (fell fallen) | *ein+schlafen (schläft schlief eingeschlafen) | kin | -
!come back (came come) | *zurück+kommen (kommt kam zurückgekommen) | kin | -
work | arbeiten | kin | -
dance | tanzen | kin | -
?cry | weinen | kin | -
"""

# Verbs that only certain sentence patterns use.
_SPECIAL = """
~be (was been being) | *sein (bist ist war gewesen)
~have (had had) | haben (hat hatte gehabt)
~say (said said) | sagen
~explain | erklären
rise (rose risen) | *steigen (steigt stieg gestiegen)
fall (fell fallen) | *sinken (sinkt sank gesunken)
injure | verletzen
kill | töten
demonstrate | demonstrieren
start | beginnen (beginnt begann begonnen)
end | enden
take place (took taken) | statt+finden (findet fand stattgefunden)
travel | *reisen
return | *zurück+kehren
start | an+fangen (fängt fing angefangen)
go (went gone) | *gehen (geht ging gegangen)
drive (drove driven) | *fahren (fährt fuhr gefahren)
fly (flew flown) | *fliegen (fliegt flog geflogen)
move | *um+ziehen (zieht zog umgezogen)
stay | *bleiben (bleibt blieb geblieben)
~live | wohnen
put (put put putting) | legen
put (put put putting) | stellen
hang (hung hung) | hängen
~be (was been being) | liegen (liegt lag gelegen)
~be (was been being) | stehen (steht stand gestanden)
~be (was been being) | hängen (hängt hing gehangen)
~like | gefallen (gefällt gefiel gefallen)
~like | schmecken
~belong to | gehören
~know (knew known) | wissen (weißt weiß wusste gewusst)
decide | beschließen (beschließt beschloss beschlossen)
plan (planned planned planning) | planen
promise | versprechen (verspricht versprach versprochen)
"""


@dataclass(frozen=True)
class Frame:
    """A verb with the tags of its subjects and of each of its objects."""

    verb: Verb
    subjects: tuple[str, ...]
    objects: tuple[tuple[str, tuple[str, ...]], ...]  # (acc | dat | auf+acc ..., tags)
    lasting: bool = True  # can be going on now
    willed: bool = True  # can be wanted, planned and commanded


def _split(side):
    """The text before the brackets and the forms inside them."""
    text, _, forms = side.partition("(")
    return text.strip(), forms.rstrip(") ").split()


def parse_verb(english_side, german_side):
    """A verb from its two columns, with the regular forms worked out."""
    text, forms = _split(english_side)
    stative = text.startswith("~")
    base, *tail = text.lstrip("~").split()
    particle = "".join(word[1:] for word in tail if word.startswith("_"))
    tail = " ".join(word for word in tail if not word.startswith("_"))
    past = forms[0] if forms else english.regular_past(base)
    participle = forms[1] if forms else past
    ing = forms[2] if len(forms) > 2 else english.regular_ing(base)
    german, parts = _split(german_side)
    reflexive = german.startswith("sich ")
    with_sein = german.startswith("*")
    prefix, _, infinitive = german.removeprefix("sich ").lstrip("*").rpartition("+")
    if len(parts) == 3:
        parts = [inflection.second_person(parts[0]), *parts]
    du, er, preterite, de_participle = parts or inflection.regular_parts(infinitive, prefix)
    return Verb(
        en=base,
        en_past=past,
        en_participle=participle,
        en_ing=ing,
        en_tail=tail,
        en_particle=particle,
        stative=stative,
        infinitive=infinitive,
        prefix=prefix,
        du=du,
        er=er,
        preterite=preterite,
        participle=de_participle,
        with_sein=with_sein,
        reflexive=reflexive,
    )


def _parse_frame(line):
    english_side, german_side, subjects, objects = (part.strip() for part in line.split("|"))
    slots = []
    for slot in re.findall(r"(\S+):(\S+)", objects):
        slots.append((slot[0], tuple(slot[1].split(","))))
    return Frame(
        verb=parse_verb(english_side.lstrip("!?"), german_side),
        subjects=tuple(subjects.split()),
        objects=tuple(slots),
        lasting=line[0] not in "!?",
        willed=line[0] != "?",
    )


NEWS = tuple(_parse_frame(line) for line in _NEWS.strip().splitlines())
TALK = tuple(_parse_frame(line) for line in _TALK.strip().splitlines())
_SPECIAL_VERBS = tuple(
    parse_verb(*(part.strip() for part in line.split("|")))
    for line in _SPECIAL.strip().splitlines()
)


@functools.cache
def special(german, english_base=""):
    """A verb of the special patterns by its German and, where two share it, English base."""
    for verb in _SPECIAL_VERBS:
        if verb.prefix + verb.infinitive == german and english_base in ("", verb.en):
            return verb
    raise KeyError(german)


@functools.cache
def frame(german, *, table=NEWS + TALK):
    """The first frame with this German infinitive."""
    for candidate in table:
        if candidate.verb.prefix + candidate.verb.infinitive == german:
            return candidate
    raise KeyError(german)
