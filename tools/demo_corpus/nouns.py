"""The nouns: English, German with article, German plural, and what they can be used for.

A line is "english[/plural] | article Noun[*], Plural | tags"; * marks a weak noun. Tags say
which verbs and adjectives go with a noun. Some English words stand twice, because news and
talk mean different things by them: a bill is a Gesetzentwurf in the one and a Rechnung in
the other.
"""

from __future__ import annotations

import functools

from .meaning import Noun

_NEWS = """
government | die Regierung, Regierungen | org voice lawmaker builder
parliament | das Parlament, Parlamente | org lawmaker
cabinet | das Kabinett, Kabinette | org lawmaker
ministry/ministries | das Ministerium, Ministerien | org voice author
opposition | die Opposition, Oppositionen | org
committee | der Ausschuss, Ausschüsse | org author
union | die Gewerkschaft, Gewerkschaften | org voice author
party/parties | die Partei, Parteien | org voice author
city council | der Stadtrat, Stadträte | org builder author
court | das Gericht, Gerichte | judging voice
police/police | die Polizei, - | voice
company/companies | das Unternehmen, Unternehmen | org firm voice author
bank | die Bank, Banken | org firm voice author
airline | die Fluggesellschaft, Fluggesellschaften | org firm voice
carmaker | der Autohersteller, Autohersteller | org firm voice
minister | der Minister, Minister | official
president | der Präsident*, Präsidenten | official
chancellor | die Kanzlerin, Kanzlerinnen | official
mayor | der Bürgermeister, Bürgermeister | official
ambassador | der Botschafter, Botschafter | official
spokeswoman/spokeswomen | die Sprecherin, Sprecherinnen | official speaker
director | die Direktorin, Direktorinnen | official speaker
lawyer | der Anwalt, Anwälte | speaker
expert | der Experte*, Experten | speaker
judge | die Richterin, Richterinnen | official judging
worker | der Arbeiter, Arbeiter | group staff striking
engineer | der Ingenieur, Ingenieure | group staff striking
pilot | der Pilot*, Piloten | group staff striking
doctor | der Arzt, Ärzte | group striking
teacher | der Lehrer, Lehrer | group striking
farmer | der Landwirt, Landwirte | group
student | der Student*, Studenten | group
citizen | der Bürger, Bürger | group
voter | der Wähler, Wähler | group
resident | der Anwohner, Anwohner | group
proposal | der Vorschlag, Vorschläge | paper draft
plan | der Plan, Pläne | paper draft
compromise | der Kompromiss, Kompromisse | paper offered
agreement | das Abkommen, Abkommen | paper signed
contract | der Vertrag, Verträge | paper signed offered
offer | das Angebot, Angebote | paper draft
application | der Antrag, Anträge | paper draft
law | das Gesetz, Gesetze | lawful
bill | der Gesetzentwurf, Gesetzentwürfe | lawful
budget | der Haushalt, Haushalte | lawful
reform | die Reform, Reformen | project
programme | das Programm, Programme | project
project | das Projekt, Projekte | project
measure | die Maßnahme, Maßnahmen | project
decision | die Entscheidung, Entscheidungen | ruling
ruling | das Urteil, Urteile | ruling
report | der Bericht, Berichte | published
study/studies | die Studie, Studien | published source
survey | die Umfrage, Umfragen | published source
talks/talks | das Gespräch, Gespräche | event pluralonly
strike | der Streik, Streiks | event
meeting | die Sitzung, Sitzungen | event attended
conference | die Konferenz, Konferenzen | event attended
summit | der Gipfel, Gipfel | event attended
trial | der Prozess, Prozesse | event
election | die Wahl, Wahlen | event
tax/taxes | die Steuer, Steuern | levy set
fee | die Gebühr, Gebühren | levy set
pension | die Rente, Renten | amount benefit set
subsidy/subsidies | die Subvention, Subventionen | benefit set
price | der Preis, Preise | amount charge set
wage | der Lohn, Löhne | amount charge set
rent | die Miete, Mieten | amount
profit | der Gewinn, Gewinne | amount
export | der Export, Exporte | amount
cost | die Kosten, Kosten | amount
bridge | die Brücke, Brücken | site
school | die Schule, Schulen | site toured
hospital | das Krankenhaus, Krankenhäuser | site toured
museum | das Museum, Museen | site toured
stadium | das Stadion, Stadien | site toured
airport | der Flughafen, Flughäfen | site toured
tunnel | der Tunnel, Tunnel | site
plant | das Werk, Werke | owned toured
branch/branches | die Filiale, Filialen | owned
crisis/crises | die Krise, Krisen | danger
attack | der Angriff, Angriffe | danger
inflation | die Inflation, - | danger mass
unemployment | die Arbeitslosigkeit, - | danger mass
accident | der Unfall, Unfälle | disaster
fire | der Brand, Brände | disaster
storm | der Sturm, Stürme | disaster
explosion | die Explosion, Explosionen | disaster
person/people | der Mensch*, Menschen | crowd
job | der Arbeitsplatz, Arbeitsplätze | jobs
"""

_TALK = """
brother | der Bruder, Brüder | kin several
sister | die Schwester, Schwestern | kin several
mother | die Mutter, Mütter | kin elder
father | der Vater, Väter | kin elder
friend | der Freund, Freunde | kin several
neighbour | der Nachbar*, Nachbarn | kin several
colleague | der Kollege*, Kollegen | kin several
aunt | die Tante, Tanten | kin
uncle | der Onkel, Onkel | kin
daughter | die Tochter, Töchter | kin child
son | der Sohn, Söhne | kin child
grandma | die Oma, Omas | kin elder
boss/bosses | der Chef, Chefs | kin
child/children | das Kind, Kinder | kin child several
parent | der Elternteil, Eltern | kin elder pluralonly
dog | der Hund, Hunde | pet
cat | die Katze, Katzen | pet
bread | das Brot, Brote | food buy mass
apple | der Apfel, Äpfel | food buy countable
egg | das Ei, Eier | food buy countable cooked
cake | der Kuchen, Kuchen | food buy countable baked fetched
soup | die Suppe, Suppen | food cooked
pizza | die Pizza, Pizzas | food buy countable baked
cheese | der Käse, Käse | food buy mass
fish/fish | der Fisch, Fische | food buy cooked mass
coffee | der Kaffee, Kaffees | drink buy mass
tea | der Tee, Tees | drink buy mass
milk | die Milch, - | drink buy mass
water | das Wasser, - | drink mass
beer | das Bier, Biere | drink buy mass
juice | der Saft, Säfte | drink buy mass
book | das Buch, Bücher | thing buy read lie lent countable small heavy
letter | der Brief, Briefe | thing read lie written small
paper | die Zeitung, Zeitungen | thing buy read lie small
bill | die Rechnung, Rechnungen | thing lie paid small
key | der Schlüssel, Schlüssel | thing lie lost small
phone | das Handy, Handys | thing buy lie lost lent small device countable
bag | die Tasche, Taschen | thing buy stand lost countable heavy under_bed
present | das Geschenk, Geschenke | thing buy lie fetched small
picture | das Bild, Bilder | thing buy hang liked
photo | das Foto, Fotos | thing lie liked small
glass/glasses | das Glas, Gläser | thing stand small washed
cup | die Tasse, Tassen | thing stand small washed buy
plate | der Teller, Teller | thing stand small washed
bottle | die Flasche, Flaschen | thing stand small fetched
lamp | die Lampe, Lampen | thing buy stand liked device
plant | die Pflanze, Pflanzen | thing buy stand watered
vase | die Vase, Vasen | thing buy stand liked
suitcase | der Koffer, Koffer | thing buy stand lost lent countable heavy under_bed
jacket | die Jacke, Jacken | thing wear buy hang liked lent countable
coat | der Mantel, Mäntel | thing wear buy hang liked lent countable
shirt | das Hemd, Hemden | thing wear buy lie liked washed
sweater | der Pullover, Pullover | thing wear buy lie liked lent
hat | der Hut, Hüte | thing wear buy lie liked
umbrella | der Regenschirm, Regenschirme | thing buy lost lent fetched countable
ticket | die Karte, Karten | thing buy lie lost fetched countable small
car | das Auto, Autos | thing buy repaired washed lent countable
bike | das Fahrrad, Fahrräder | thing buy repaired lent lost countable
computer | der Computer, Computer | thing buy repaired device countable
radio | das Radio, Radios | thing repaired device
television | der Fernseher, Fernseher | thing heavy buy repaired device countable
film | der Film, Filme | watched liked starts
match/matches | das Spiel, Spiele | watched starts
concert | das Konzert, Konzerte | starts liked
party/parties | die Party, Partys | starts invited
course | der Kurs, Kurse | starts
song | das Lied, Lieder | liked heard
story/stories | die Geschichte, Geschichten | told liked heard
holidays/holidays | die Ferien, Ferien | awaited pluralonly
trip | die Reise, Reisen | awaited planned
weekend | das Wochenende, Wochenenden | awaited
table | der Tisch, Tische | top under
chair | der Stuhl, Stühle | top under
bed | das Bett, Betten | top under
shelf/shelves | das Regal, Regale | in_shelf
cabinet | der Schrank, Schränke | inner
drawer | die Schublade, Schubladen | inner_small
sofa | das Sofa, Sofas | top under
window | das Fenster, Fenster | opened
door | die Tür, Türen | opened
wall | die Wand, Wände | upright
kitchen | die Küche, Küchen | room
garden | der Garten, Gärten | room
bathroom | das Bad, Bäder | room
room | das Zimmer, Zimmer | room tidied
cellar | der Keller, Keller | room tidied
cinema | das Kino, Kinos | outing
theatre | das Theater, Theater | outing
park | der Park, Parks | outing
restaurant | das Restaurant, Restaurants | outing
library/libraries | die Bibliothek, Bibliotheken | outing
office | das Büro, Büros | outing
swimming pool | das Schwimmbad, Schwimmbäder | outing
city/cities | die Stadt, Städte | outing
job | der Job, Jobs | sought countable
flat | die Wohnung, Wohnungen | sought countable tidied
hotel | das Hotel, Hotels | sought
doctor | die Ärztin, Ärztinnen | visited
teacher | die Lehrerin, Lehrerinnen | visited
bus/buses | der Bus, Busse | ride
train | der Zug, Züge | ride
answer | die Antwort, Antworten | known clear
question | die Frage, Fragen | known clear
address/addresses | die Adresse, Adressen | known
name | der Name*, Namen | known
time | die Zeit, Zeiten | had mass
money | das Geld, Gelder | had mass
"""


def _parse(line):
    english, german, tags = (part.strip() for part in line.split("|"))
    en, _, en_plural = english.partition("/")
    singular, de_plural = (part.strip() for part in german.split(","))
    article, noun = singular.split()
    return Noun(
        en=en,
        en_plural=en_plural or f"{en}s",
        de=noun.rstrip("*"),
        gender={"der": "m", "die": "f", "das": "n"}[article],
        de_plural=de_plural,
        weak=noun.endswith("*"),
        tags=tuple(tags.split()),
    )


def _index(text):
    """Nouns by tag, in the order of the table."""
    tagged: dict[str, list[Noun]] = {}
    for line in text.strip().splitlines():
        noun = _parse(line)
        for tag in noun.tags:
            tagged.setdefault(tag, []).append(noun)
    return {tag: tuple(nouns) for tag, nouns in tagged.items()}


NEWS = _index(_NEWS)
TALK = _index(_TALK)
UNITS = {
    name: _parse(line)
    for name, line in {
        "day": "day | der Tag, Tage | unit",
        "week": "week | die Woche, Wochen | unit",
        "month": "month | der Monat, Monate | unit",
        "year": "year | das Jahr, Jahre | unit",
        "hour": "hour | die Stunde, Stunden | unit",
        "minute": "minute | die Minute, Minuten | unit",
    }.items()
}


@functools.cache
def find(german):
    """The noun with this German singular."""
    for table in (NEWS, TALK):
        for nouns in table.values():
            for noun in nouns:
                if noun.de == german:
                    return noun
    raise KeyError(german)
