"""Adjectives, names, cities, countries and adverbs of time."""

from __future__ import annotations

from aevnmt_tf.data.demo.meaning import Adjective, Adjunct, Name

# english | german [stem] | tags of the nouns that it can describe
_ADJECTIVES = """
new | neu | paper published project site owned road thing event
controversial | umstritten | paper project ruling
important | wichtig | paper event ruling project
ambitious | ehrgeizig | paper
secret | geheim | paper event
strict | streng | lawful project
planned | geplant | paper event project site
current | aktuell | published paper
final | endgültig | ruling
surprising | überraschend | ruling
expensive | teuer teur | site thing project road
modern | modern | site owned
old | alt | site thing owned kin pet official
big | groß | site firm thing pet danger disaster
small | klein | firm site thing pet child
German | deutsch | firm official org group site
French | französisch | firm official org group
European | europäisch | firm org
local | örtlich | firm group
international | international | event
political | politisch | danger event
young | jung | group kin pet
experienced | erfahren | group official
former | ehemalig | official
serious | schwer | disaster danger
red | rot | wear stand
blue | blau | wear stand
green | grün | wear stand
black | schwarz | wear pet stand
white | weiß | wear pet stand
warm | warm | food wear drink
cold | kalt | food drink
cheap | billig | thing
beautiful | schön | liked thing
heavy | schwer | thing
broken | kaputt | repaired device
dirty | schmutzig | washed wear
empty | leer | stand
funny | lustig | watched told heard
boring | langweilig | watched told read
delicious | lecker | food
friendly | freundlich | kin visited
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
    "last month/im vergangenen Monat, today/am heutigen Tag"
)[:4]
NEWS_FUTURE = _adjuncts(
    "tomorrow/morgen, next week/in der kommenden Woche, next year/im kommenden Jahr, "
    "next month/im kommenden Monat"
)
TALK_PAST = _adjuncts(
    "yesterday/gestern, last week/letzte Woche, last year/letztes Jahr, "
    "last night/gestern Abend, this morning/heute Morgen, last weekend/letztes Wochenende"
)
TALK_FUTURE = _adjuncts(
    "tomorrow/morgen, next week/nächste Woche, next year/nächstes Jahr, "
    "tonight/heute Abend, tomorrow morning/morgen früh, this weekend/dieses Wochenende"
)
TALK_NOW = _adjuncts("at the moment/gerade, now/jetzt")
TALK_HABIT = _adjuncts(
    "every day/jeden Tag, every morning/jeden Morgen, every evening/jeden Abend, "
    "every week/jede Woche",
    habitual=True,
)
NEWS_ADVERBS = _adjuncts("already/bereits, again/erneut")[:1]
TALK_ADVERBS = _adjuncts("already/schon, finally/endlich")
OFTEN = _adjuncts("often/oft, always/immer, sometimes/manchmal, never/nie", habitual=True)
