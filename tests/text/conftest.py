import random

import pytest

from aevnmt_tf.text import sentencepiece_tokenizer

NOUNS = "Hund Katze Straße Bücher Äpfel Übung Mädchen Fußball Zeitung Rathaus Brücke".split()
VERBS = "sieht kauft findet öffnet überquert schließt hört liest mag sucht".split()
DETERMINERS = "der die das ein eine kein keine jeder dieser mein".split()
RESTS = [
    "am 3. Oktober 2019",
    "in der „Alten Oper“",
    "für 1.234,56 €",
    "um 14:30 Uhr",
    "- nicht wahr?",
    "zum x-ten Mal!",
    "(siehe S. 12)",
    "naïve façade",
    "Zoooo aaargh",
]


@pytest.fixture(scope="session")
def lines():
    """Made-up German with umlauts, numbers, quotes and hyphens."""
    choose = random.Random(7).choice
    return [
        f"{choose(DETERMINERS).capitalize()} {choose(NOUNS)} {choose(VERBS)} "
        f"{choose(DETERMINERS)} {choose(NOUNS)} {choose(RESTS)}."
        for _ in range(3000)
    ]


@pytest.fixture(scope="session")
def model_proto(lines):
    return sentencepiece_tokenizer.train(lines, vocab_size=500)
