"""METEOR and BEER: how their programs are called, and what is read out of what they print."""

import importlib.util
import json
import os
import pathlib
import shutil
import stat
import sys

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics
from aevnmt_tf.evaluation.external_metrics import Programs

HYPOTHESES = ["Der Hund (ein großer) bellt.", "", "Ja,\u2028nein\x85gut!"]
REFERENCES = ["Der Hund bellt laut.", "Nein.", 'Ja, "nein" gut!']
TOKENISED = ["Der Hund ( ein großer ) bellt .", "", "Ja , nein gut !"]

# What Meteor 1.5 prints without -q, shortened.
METEOR = """Meteor version: 1.5

Eval ID:        meteor.1.5.wo.de.rank.0.95-1.0-0.55-0.55

Language:       German
Format:         plaintext
Task:           Ranking
Modules:        exact stem paraphrase
Weights:        1.0 0.8 0.2
Parameters:     0.95 1.0 0.55 0.55

Segment 1 score:\t0.5613
Segment 2 score:\t0.0
Segment 3 score:\t1.0E-4

System level statistics:

           Test Matches                  Reference Matches
Stage      Content  Function    Total    Content  Function    Total
1                2         2        4          2         2        4
Total            2         2        4          2         2        4

Test words:             13
Reference words:        14
Chunks:                 3
Precision:              0.8461538461538461
Recall:                 0.7857142857142857
f1:                     0.8148148148148148
fMean:                  0.7885
Fragmentation penalty:  0.2

Final score:            0.30125678
"""
BEER = """sent 1 score is 0.61
sent 2 score is 0.05
sent 3 score is 0.7000000001
total BEER 0.34000000002
"""


def program(path, *, prints, code=0, errors=""):
    """An executable that records its call in PATH.json and prints what it is told to."""
    record = f"{path}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib, sys\n"
        "files = {a: pathlib.Path(a).read_text('utf-8') for a in sys.argv[1:]\n"
        "         if os.path.isfile(a) and not a.endswith('.jar')}\n"
        "record = {'words': sys.argv[1:], 'files': list(files.values()),\n"
        "          'path': os.environ['PATH']}\n"
        f"pathlib.Path({record!r}).write_text(json.dumps(record))\n"
        f"sys.stdout.write({prints!r})\n"
        f"sys.stderr.write({errors!r})\n"
        f"sys.exit({code})\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def called(path):
    return json.loads(open(f"{path}.json").read())


@pytest.fixture
def jar(tmp_path):
    path = tmp_path / "meteor-1.5" / "meteor-1.5.jar"
    path.parent.mkdir()
    path.write_bytes(b"PK")
    return path


def test_meteor(tmp_path, jar):
    java = program(tmp_path / "bin" / "java", prints=METEOR)
    programs = Programs(meteor_jar=str(jar), java=str(java), language="de")
    found = programs.score("meteor", HYPOTHESES, REFERENCES)
    assert found.score == pytest.approx(30.125678)
    assert found.sentences == pytest.approx([56.13, 0, 0.01])
    assert found.signature == "nrefs:1|lang:de|tok:13a|version:1.5"
    call = called(java)
    *start, hypotheses, references, flag, language = call["words"]
    assert start == ["-Xmx2G", "-jar", str(jar)]
    assert (flag, language) == ("-l", "de")
    expected = list(map(metrics.tokeniser_13a(), REFERENCES))
    assert call["files"] == ["".join(f"{t}\n" for t in side) for side in (TOKENISED, expected)]
    assert not os.path.exists(hypotheses) and not os.path.exists(references)


def test_the_tokenizer_is_that_of_sacrebleu():
    """BLEU of text that is tokenised by us does not change without its own tokenizer."""
    import sacrebleu

    tokenise = metrics.tokeniser_13a()
    ours = [list(map(tokenise, side)) for side in (HYPOTHESES, REFERENCES)]
    assert ours[0] == TOKENISED
    raw = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES])
    alone = sacrebleu.corpus_bleu(ours[0], [ours[1]], tokenize="none", force=True)
    assert raw.score == alone.score and raw.score > 0


@pytest.mark.parametrize("given", ["folder", "program", "jar"])
def test_beer(tmp_path, given):
    beer = program(tmp_path / "beer_2.0" / "beer", prints=BEER)
    java = program(tmp_path / "jre" / "java", prints="")
    (tmp_path / "beer_2.0" / "beer_2.0.jar").write_bytes(b"PK")
    path = {"folder": beer.parent, "program": beer, "jar": beer.parent / "beer_2.0.jar"}[given]
    programs = Programs(beer=str(path), java=str(java))
    found = programs.score("beer", HYPOTHESES, REFERENCES)
    assert found.score == pytest.approx(34.000000002)
    assert found.sentences == pytest.approx([61, 5, 70.00000001])
    assert found.signature == "nrefs:1|tok:13a|version:2.0"
    call = called(beer)
    s, hypotheses, r, references, sentences = call["words"]
    assert (s, r, sentences) == ("-s", "-r", "--printSentScores")
    assert ":" not in references  # which would be several references
    assert call["files"][0] == "".join(f"{line}\n" for line in TOKENISED)
    assert call["path"].startswith(str(java.parent))


def test_what_is_missing_is_said_before_anything_runs(tmp_path, jar):
    java = str(program(tmp_path / "bin" / "java", prints=METEOR))
    beer = program(tmp_path / "beer_2.0" / "beer", prints=BEER)
    beer.chmod(0o644)
    for programs, name, sentence in [
        (Programs(), "meteor", "meteor needs --meteor_jar"),
        (Programs(), "beer", "beer needs --beer"),
        (
            Programs(meteor_jar="no/m.jar", java=java),
            "meteor",
            "--meteor_jar: there is no file no/m.jar",
        ),
        (Programs(meteor_jar=str(jar), java=java), "meteor", "give --language"),
        (
            Programs(meteor_jar=str(jar), java="no-such-java", language="de"),
            "meteor",
            "--java: there is no program no-such-java",
        ),
        (Programs(beer=str(tmp_path)), "beer", "--beer: there is no program"),
        (Programs(beer=str(beer)), "beer", "is not executable: run chmod"),
    ]:
        with pytest.raises(UserError, match=sentence):
            programs.check([name])
    Programs().check(["bleu"])


@pytest.mark.parametrize(
    "prints, code, errors, sentence",
    [
        (
            "",
            1,
            "Error: no jarfile x\n\tat Main\n",
            "failed with exit code 1: Error: no jarfile x.$",
        ),
        ("", 3, "", "METEOR failed with exit code 3.$"),
        ("Meteor version: 1.5\n", 0, "", "METEOR printed 0 scores instead of 1.$"),
        (METEOR.replace("Segment 2", "Seg 2"), 0, "", "METEOR printed 2 scores instead of 3"),
        (
            "",
            0,
            "Error: test and reference not same length\n",
            "instead of 1: Error: test and ref",
        ),
    ],
)
def test_a_program_that_fails(tmp_path, jar, prints, code, errors, sentence):
    java = program(tmp_path / "bin" / "java", prints=prints, code=code, errors=errors)
    programs = Programs(meteor_jar=str(jar), java=str(java), language="de")
    with pytest.raises(UserError, match=sentence):
        programs.score("meteor", HYPOTHESES, REFERENCES)


def test_a_program_that_cannot_start(tmp_path):
    beer = tmp_path / "beer_2.0" / "beer"
    beer.parent.mkdir()
    beer.write_text("#!/no/such/shell\n")
    beer.chmod(0o755)
    java = program(tmp_path / "bin" / "java", prints="")
    with pytest.raises(UserError, match="BEER cannot be run"):
        Programs(beer=str(beer), java=str(java)).score("beer", ["a"], ["a"])


# METEOR itself. Its jar, with the data of English alone, is in the PyPI package pycocoevalcap;
# a jar elsewhere is named by METEOR_JAR.


def real_jar():
    """Return the jar of METEOR 1.5, None where there is none."""
    if "METEOR_JAR" in os.environ:
        return pathlib.Path(os.environ["METEOR_JAR"])
    package = importlib.util.find_spec("pycocoevalcap")
    if package is None:
        return None
    return pathlib.Path(package.submodule_search_locations[0]) / "meteor" / "meteor-1.5.jar"


@pytest.mark.slow
@pytest.mark.skipif(
    real_jar() is None or shutil.which("java") is None, reason="needs METEOR's jar and Java"
)
def test_the_real_meteor():
    programs = Programs(meteor_jar=str(real_jar()), language="en")
    same = "The cat sat on the mat."
    found = programs.score(
        "meteor", [same, "A dog barks, (loudly).", ""], [same, "The dogs barked loudly.", "No."]
    )
    assert found.signature == "nrefs:1|lang:en|tok:13a|version:1.5"
    # What the jar prints when it is run by hand on the same text, tokenised by 13a.
    assert found.sentences == pytest.approx([100.0, 13.973799126637557, 0.0])
    assert found.score == pytest.approx(36.13695480406146)
    german = Programs(meteor_jar=str(real_jar()), language="de")
    with pytest.raises(UserError, match="paraphrase-de.gz"):
        german.check(["meteor"])


def test_a_jar_without_the_data_of_a_language_is_refused(tmp_path, jar):
    java = str(program(tmp_path / "bin" / "java", prints=METEOR))
    (jar.parent / "data").mkdir()
    (jar.parent / "data" / "paraphrase-en.gz").write_bytes(b"")
    for language, is_good in (("en", True), ("de", False), ("nl", True)):
        programs = Programs(meteor_jar=str(jar), java=java, language=language)
        if is_good:
            programs.check(["meteor"])
        else:
            with pytest.raises(UserError, match="paraphrase-de.gz"):
                programs.check(["meteor"])
