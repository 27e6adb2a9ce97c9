"""The verbs with what can be their subject and objects.

A line is "english (past participle [ing]) | German (du er preterite participle) | subjects |
objects". In the English, ~ marks a verb without progressive, _ a particle that lets a pronoun
pass (turn _off); further words stay with the verb (wait for). In the German, + follows a
separable prefix and * marks the perfect with sein. Regular forms are left out. An object is
"acc:tags", "dat:tags" or "preposition+case:tags", with tags of nouns.py joined by commas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from aevnmt_tf.data.demo import english, inflection
from aevnmt_tf.data.demo.meaning import Verb

_NEWS = """
reject | ab+lehnen | org official | acc:paper,ruling
present | vor+stellen | org official | acc:paper,project
accept | an+nehmen (nimmst nimmt nahm angenommen) | org official | acc:paper,ruling
announce | an+kündigen | org official | acc:project,ruling
criticise | kritisieren | org official group | acc:paper,ruling,org
support | unterstützen | org official group | acc:paper,group
examine | prüfen | org official | acc:paper
sign | unterzeichnen | org official | acc:signed
publish | veröffentlichen | org | acc:published
change | ändern | lawmaker | acc:lawful
pass | verabschieden | lawmaker | acc:lawful
prepare | vor+bereiten | org | acc:project,event
postpone | verschieben (verschiebst verschiebt verschob verschoben) | org official | acc:event,project
carry _out | durch+führen | org | acc:project
withdraw (withdrew withdrawn) | zurück+ziehen (ziehst zieht zog zurückgezogen) | org official | acc:paper
defend | verteidigen | official | acc:paper,ruling
stop (stopped stopped stopping) | stoppen | org | acc:project
call for | fordern | org official group | acc:project,ruling
build (built built) | bauen | firm lawmaker | acc:site,road
open | eröffnen | official firm | acc:site
close | schließen (schließt schließt schloss geschlossen) | firm lawmaker | acc:site,road
sell (sold sold) | verkaufen | firm | acc:owned
visit | besuchen | official | acc:site
meet (met met) | treffen (triffst trifft traf getroffen) | official | acc:official,group
fire | entlassen (entlässt entlässt entließ entlassen) | firm | acc:staff
hire | ein+stellen | firm | acc:staff
raise | erhöhen | lawmaker firm | acc:set
lower | senken | lawmaker firm | acc:set
cut (cut cut cutting) | kürzen | lawmaker firm | acc:set
help | helfen (hilfst hilft half geholfen) | org official | dat:group,firm
agree to | zu+stimmen | org official | dat:paper
trust | vertrauen | group | dat:org,official
thank | danken | official | dat:group,official
offer | an+bieten (bietest bietet bot angeboten) | org | dat:group acc:offered
promise | versprechen (versprichst verspricht versprach versprochen) | org official | dat:group acc:project
recommend | empfehlen (empfiehlst empfiehlt empfahl empfohlen) | org official | dat:org acc:project
warn of | warnen | official org | vor+dat:danger
take part in (took taken) | teil+nehmen (nimmst nimmt nahm teilgenommen) | official | an+dat:attended
protest against | protestieren | group | gegen+acc:paper,ruling
vote on | ab+stimmen | lawmaker | über+acc:paper
report on | berichten | official | über+acc:event,project
work on | arbeiten | org | an+dat:paper
wait for | warten | group org | auf+acc:ruling
negotiate with | verhandeln | org official | mit+dat:org,group
resign | *zurück+treten (trittst tritt trat zurückgetreten) | official | -
strike (struck struck) | streiken | staff | -
"""

_TALK = """
buy (bought bought) | kaufen | kin | acc:buy
sell (sold sold) | verkaufen | kin | acc:repaired
look for | suchen | kin | acc:lost,sought
find (found found) | finden (findest findet fand gefunden) | kin | acc:lost,sought
lose (lost lost) | verlieren (verlierst verliert verlor verloren) | kin | acc:lost
~need | brauchen | kin | acc:thing,had
forget (forgot forgotten forgetting) | vergessen (vergisst vergisst vergaß vergessen) | kin | acc:lost,known
bring (brought brought) | mit+bringen (bringst bringt brachte mitgebracht) | kin | acc:fetched
read (read read) | lesen (liest liest las gelesen) | kin | acc:read
eat (ate eaten) | essen (isst isst aß gegessen) | kin | acc:food
drink (drank drunk) | trinken (trinkst trinkt trank getrunken) | kin | acc:drink
cook | kochen | kin | acc:cooked
bake | backen (backst backt backte gebacken) | kin | acc:baked
wash | waschen (wäschst wäscht wusch gewaschen) | kin | acc:washed
repair | reparieren | kin | acc:repaired
watch | sehen (siehst sieht sah gesehen) | kin | acc:watched
hear (heard heard) | hören | kin | acc:heard
pay (paid paid) | bezahlen | kin | acc:paid
water | gießen (gießt gießt goss gegossen) | kin | acc:watered
open | auf+machen | kin | acc:opened
close | zu+machen | kin | acc:opened
turn _on | an+machen | kin | acc:device
turn _off | aus+machen | kin | acc:device
put _on (put put putting) | an+ziehen (ziehst zieht zog angezogen) | kin | acc:wear
take _off (took taken) | aus+ziehen (ziehst zieht zog ausgezogen) | kin | acc:wear
try _on | an+probieren | kin | acc:wear
tidy _up | auf+räumen | kin | acc:tidied
pick _up | ab+holen | kin | acc:kin
call | an+rufen (rufst ruft rief angerufen) | kin | acc:kin,visited
invite | ein+laden (lädst lädt lud eingeladen) | kin | acc:kin
visit | besuchen | kin | acc:kin
meet (met met) | treffen (triffst trifft traf getroffen) | kin | acc:kin
ask | fragen | kin | acc:kin,visited
~know (knew known) | kennen (kennst kennt kannte gekannt) | kin | acc:known,visited
~understand (understood understood) | verstehen (verstehst versteht verstand verstanden) | kin | acc:known
plan (planned planned planning) | planen | kin | acc:planned
help | helfen (hilfst hilft half geholfen) | kin | dat:kin
thank | danken | kin | dat:kin,visited
give (gave given) | geben (gibst gibt gab gegeben) | kin | dat:kin acc:small
show (showed shown) | zeigen | kin | dat:kin acc:liked,small
lend (lent lent) | leihen (leihst leiht lieh geliehen) | kin | dat:kin acc:lent
send (sent sent) | schicken | kin | dat:kin acc:written,liked
tell (told told) | erzählen | kin | dat:kin acc:told
wait for | warten | kin | auf+acc:kin,ride
think about (thought thought) | denken (denkst denkt dachte gedacht) | kin | an+acc:kin,awaited
talk to | sprechen (sprichst spricht sprach gesprochen) | kin | mit+dat:kin,visited
look forward to | sich freuen | kin | auf+acc:awaited,starts
complain about | sich beschweren | kin | über+acc:kin,ride
look after | auf+passen | kin | auf+acc:child,pet
sleep (slept slept) | schlafen (schläfst schläft schlief geschlafen) | kin pet | -
get up (got got getting) | *auf+stehen (stehst steht stand aufgestanden) | kin | -
wake up (woke woken) | *auf+wachen | kin | -
fall asleep (fell fallen) | *ein+schlafen (schläfst schläft schlief eingeschlafen) | kin | -
come back (came come) | *zurück+kommen (kommst kommt kam zurückgekommen) | kin | -
work | arbeiten | kin | -
dance | tanzen | kin | -
cry | weinen | kin | -
"""

# Verbs that only certain sentence patterns use.
_SPECIAL = """
~be (was been being) | *sein (bist ist war gewesen)
~have (had had) | haben (hast hat hatte gehabt)
~say (said said) | sagen
~explain | erklären
rise (rose risen) | *steigen (steigst steigt stieg gestiegen)
fall (fell fallen) | *sinken (sinkst sinkt sank gesunken)
injure | verletzen
kill | töten
destroy | zerstören
demonstrate | demonstrieren
start | beginnen (beginnst beginnt begann begonnen)
end | enden
take place (took taken) | statt+finden (findest findet fand stattgefunden)
travel | *reisen
return | *zurück+kehren
arrive | *an+kommen (kommst kommt kam angekommen)
begin (began begun beginning) | an+fangen (fängst fängt fing angefangen)
stop (stopped stopped stopping) | auf+hören
go (went gone) | *gehen (gehst geht ging gegangen)
drive (drove driven) | *fahren (fährst fährt fuhr gefahren)
fly (flew flown) | *fliegen (fliegst fliegt flog geflogen)
move | *um+ziehen (ziehst zieht zog umgezogen)
come (came come) | *kommen (kommst kommt kam gekommen)
stay | *bleiben (bleibst bleibt blieb geblieben)
~live | wohnen
put (put put putting) | legen
put (put put putting) | stellen
hang (hung hung) | hängen
~be (was been being) | liegen (liegst liegt lag gelegen)
~be (was been being) | stehen (stehst steht stand gestanden)
~be (was been being) | hängen (hängst hängt hing gehangen)
~like | gefallen (gefällst gefällt gefiel gefallen)
~like | schmecken
~belong to | gehören
~think (thought thought) | glauben
~know (knew known) | wissen (weißt weiß wusste gewusst)
~hope | hoffen
depart | *ab+fahren (fährst fährt fuhr abgefahren)
~cost (cost cost) | kosten
play | spielen
decide | beschließen (beschließt beschließt beschloss beschlossen)
plan (planned planned planning) | planen
promise | versprechen (versprichst verspricht versprach versprochen)
create | schaffen (schaffst schafft schuf geschaffen)
"""


@dataclass(frozen=True)
class Frame:
    """A verb with the tags of its subjects and of each of its objects."""

    verb: Verb
    subjects: tuple[str, ...]
    objects: tuple[tuple[str, tuple[str, ...]], ...]  # (acc | dat | auf+acc ..., tags)


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
    return Frame(parse_verb(english_side, german_side), tuple(subjects.split()), tuple(slots))


NEWS = tuple(_parse_frame(line) for line in _NEWS.strip().splitlines())
TALK = tuple(_parse_frame(line) for line in _TALK.strip().splitlines())
_SPECIAL_VERBS = tuple(
    parse_verb(*(part.strip() for part in line.split("|")))
    for line in _SPECIAL.strip().splitlines()
)


def special(german, english_base=""):
    """A verb of the special patterns by its German infinitive, and its English base if need be."""
    for verb in _SPECIAL_VERBS:
        if verb.prefix + verb.infinitive == german and english_base in ("", verb.en):
            return verb
    raise KeyError(german)


def frame(german, *, table=NEWS + TALK):
    """The first frame with this German infinitive."""
    for candidate in table:
        if candidate.verb.prefix + candidate.verb.infinitive == german:
            return candidate
    raise KeyError(german)
