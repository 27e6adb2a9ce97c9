"""Adjectives, names, cities, countries and adverbs of time."""

from __future__ import annotations

import functools

from .meaning import Adjective, Adjunct, Name

# english | german [stem] | tags of the nouns that it can describe
_ADJECTIVES = """
new | neu | paper lawful published project site owned wear lent repaired stand
controversial | umstritten | paper lawful project ruling
important | wichtig | paper lawful event ruling project
ambitious | ehrgeizig | draft project
secret | geheim | paper attended
strict | streng | lawful project
planned | geplant | project event
current | aktuell | published lawful
final | endgültig | ruling
surprising | überraschend | ruling
expensive | teuer teur | project wear lent repaired
modern | modern | site owned
old | alt | repaired wear pet stand
big | groß | site firm repaired stand pet
small | klein | firm site stand pet child
German | deutsch | firm lawmaker official group
French | französisch | firm lawmaker official group
European | europäisch | firm
local | örtlich | firm
international | international | attended
young | jung | group
experienced | erfahren | striking official
former | ehemalig | official
serious | schwer | disaster danger
red | rot | wear stand
blue | blau | wear stand
green | grün | wear stand
black | schwarz | wear pet
white | weiß | wear pet
warm | warm | wear drink
cold | kalt | drink
cheap | billig | wear lent repaired
beautiful | schön | liked
heavy | schwer | heavy
dirty | schmutzig | washed wear
empty | leer | washed
funny | lustig | watched told heard
boring | langweilig | watched told
delicious | lecker | food
friendly | freundlich | visited
long | lang | watched told awaited
"""


def _adjectives():
    found = []
    for line in _ADJECTIVES.strip().splitlines():
        en, german, tags = (part.strip() for part in line.split("|"))
        de, _, stem = german.partition(" ")
        found.append(Adjective(en=en, de=de, stem=stem or de, tags=tuple(tags.split())))
    return tuple(found)


ADJECTIVES = _adjectives()
BY_ENGLISH = {adjective.en: adjective for adjective in ADJECTIVES}
COLOURS = ("red", "blue", "green", "black", "white")


@functools.cache
def fitting(noun):
    """The adjectives that can describe a noun."""
    return tuple(a for a in ADJECTIVES if set(a.tags) & set(noun.tags))


def _pairs(text):
    """Pairs of English and German; one word alone is the same in both."""
    for entry in text.split(","):
        en, _, de = entry.strip().partition("/")
        yield en, de or en


CITIES = tuple(
    _pairs(
        "Berlin, Hamburg, Munich/München, Cologne/Köln, Frankfurt, Bremen, Leipzig, Dresden, "
        "Hanover/Hannover, Nuremberg/Nürnberg, Vienna/Wien, Zurich/Zürich, Geneva/Genf, Paris, "
        "London, Rome/Rom, Brussels/Brüssel, Prague/Prag, Warsaw/Warschau, Moscow/Moskau"
    )
)
COUNTRIES = tuple(
    _pairs(
        "Germany/Deutschland, France/Frankreich, Austria/Österreich, Italy/Italien, "
        "Spain/Spanien, Poland/Polen, Denmark/Dänemark, Belgium/Belgien"
    )
)
MEN = "Peter Paul Tim Jan Ben David Martin Oliver Michael Simon".split()
WOMEN = "Anna Maria Laura Julia Lena Emma Sarah Clara Nina Eva".split()
SURNAMES = (
    "Weber Klein Schneider Fischer Wagner Becker Hoffmann Koch Richter Wolf Neumann Braun "
    "Zimmermann Hartmann Lange Krause"
).split()
FIRST_NAMES = tuple(Name(n, n, "m") for n in MEN) + tuple(Name(n, n, "f") for n in WOMEN)
DAYS = tuple(
    _pairs(
        "Monday/Montag, Tuesday/Dienstag, Wednesday/Mittwoch, Thursday/Donnerstag, "
        "Friday/Freitag, Saturday/Samstag, Sunday/Sonntag"
    )
)
MONTHS = tuple(
    _pairs(
        "January/Januar, February/Februar, March/März, April, May/Mai, June/Juni, July/Juli, "
        "August, September, October/Oktober, November, December/Dezember"
    )
)
SEASONS = tuple(_pairs("spring/Frühling, summer/Sommer, autumn/Herbst, winter/Winter"))


def _adjuncts(text, *, habitual=False):
    return tuple(Adjunct(en, de, habitual) for en, de in _pairs(text))


# The registers choose different German words for the same English ones.
NEWS_PAST = _adjuncts(
    "yesterday/gestern, last week/in der vergangenen Woche, last year/im vergangenen Jahr, "
    "last month/im vergangenen Monat"
)
NEWS_FUTURE = _adjuncts(
    "tomorrow/morgen, next week/in der kommenden Woche, next year/im kommenden Jahr, "
    "next month/im kommenden Monat"
)
TALK_PAST = _adjuncts(
    "yesterday/gestern, last week/letzte Woche, last night/gestern Abend, "
    "this morning/heute Morgen, last weekend/letztes Wochenende"
)
TALK_FUTURE = _adjuncts(
    "tomorrow/morgen, next week/nächste Woche, tonight/heute Abend, "
    "tomorrow morning/morgen früh, this weekend/dieses Wochenende"
)
# For what one does not do every day.
TALK_LONG_AGO = _adjuncts("last year/letztes Jahr, last month/letzten Monat")
TALK_FAR_AWAY = _adjuncts("next year/nächstes Jahr, next month/nächsten Monat")
TALK_NOW = _adjuncts("at the moment/gerade, now/jetzt")
TALK_HABIT = _adjuncts(
    "every day/jeden Tag, every morning/jeden Morgen, every evening/jeden Abend, "
    "every week/jede Woche",
    habitual=True,
)
NEWS_ALREADY = Adjunct("already", "bereits")
TALK_ADVERBS = _adjuncts("already/schon, finally/endlich")
OFTEN = _adjuncts("often/oft, always/immer, sometimes/manchmal, never/nie", habitual=True)
