"""The command: scores as sacreBLEU has them, tables and JSON, or a sentence to stderr."""

import gzip
import io
import json
import random
import shutil
import subprocess
import sys

import pytest
import sacrebleu as sacrebleu_package

from aevnmt_tf import evaluate, translator
from aevnmt_tf.evaluation import evaluated_systems, evaluation_sets, metrics
from tests.tiny_translator import save_run

WORDS = "the a cat dog sat ran on under mat tree big small , .".split()
HYP = ["--hyp", "{texts}/near", "--ref", "{texts}/ref"]
TITLES = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def letters(count, *, seed):
    dice = random.Random(seed)
    return [" ".join(dice.choices("abcdefgh", k=dice.randint(2, 7))) for _ in range(count)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two test sets for the tiny models."""
    folder = tmp_path_factory.mktemp("data")
    for seed, (name, count) in enumerate((("news", 7), ("talks", 5))):
        write(folder / f"{name}.en", letters(count, seed=seed))
        write(folder / f"{name}.de", letters(count, seed=seed + 10))
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """Tiny models; `run`, which is the only one to translate, knows its test set."""
    folder = tmp_path_factory.mktemp("runs")
    options = {"beam_width": 0, "src_max_len_infer": 12, "infer_batch_size": 6}
    options |= {"train_prefix": "none", "test_prefix": str(data / "news")}
    save_run(folder / "run", **options)
    save_run(folder / "cond", system="cond", **options)
    return folder


@pytest.fixture(scope="module")
def loaded():
    """Translators that were loaded, and their graphs."""
    return {}


@pytest.fixture
def command(loaded, monkeypatch, capsys):
    """Run the command in this process: code, output, messages."""
    load = translator.load

    def load_once(path, **options):
        key = (str(path), tuple(sorted(options.items())))
        if key not in loaded:
            loaded[key] = load(path, **options)
        return loaded[key]

    monkeypatch.setattr(translator, "load", load_once)

    def call(*words, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = evaluate.main([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A reference and two translations of it, one of them closer."""
    folder = tmp_path_factory.mktemp("texts")
    dice = random.Random(0)
    reference = [dice.choices(WORDS, k=dice.randint(4, 12)) for _ in range(30)]
    for name, rate in (("ref", 0.0), ("far", 0.5), ("near", 0.1)):
        changed = [
            [dice.choice(WORDS) if dice.random() < rate else w for w in line]
            for line in reference
        ]
        lines = [" ".join(line) for line in changed]
        if name != "ref":
            lines[3], lines[4] = "", "  größe\u2028„ja“ 5,000.50\t&quot; "
        write(folder / name, lines)
    return folder


def sacrebleu(*words, cwd):
    words = [sys.executable, "-m", "sacrebleu", *map(str, words)]
    return subprocess.run(words, cwd=cwd, capture_output=True, check=True, text=True).stdout


# Scores of files.


def test_scores_are_those_of_the_sacrebleu_command(command, texts):
    code, output, _ = command("--hyp", texts / "near", "--ref", texts / "ref", "--json")
    assert code == 0
    words = ("ref", "-i", "near", "-m", "bleu", "chrf", "ter", "-f", "json", "-w", "12")
    expected = json.loads(sacrebleu(*words, cwd=texts))
    (system,) = json.loads(output)["systems"]
    assert system["name"] == "near" and list(system["sets"]) == ["ref"]
    for row in expected:
        found = system["sets"]["ref"]["scores"][TITLES[row["name"]]]
        assert f"{found['score']:.12f}" == f"{row['score']:.12f}"
        assert found["signature"] == row["signature"]
        assert f"{found['score']:.2f}" != repr(found["score"])  # not rounded
    assert system["all"]["scores"] == system["sets"]["ref"]["scores"]
    assert system["all"]["lines"] == 30


def test_text(command, texts):
    code, output, _ = command("--hyp", texts / "near", "--ref", texts / "ref")
    header, row, _, *signatures = output.splitlines()
    assert code == 0 and header.split() == ["set", "system", "lines", "BLEU", "chrF", "TER"]
    scores = metrics.score(
        evaluation_sets.read_lines(texts / "near"),
        evaluation_sets.read_lines(texts / "ref"),
        names=("bleu", "chrf", "ter"),
    )
    numbers = [f"{score.value:.2f}" for score in scores.values()]
    assert row.split() == ["ref", "near", "30", *numbers]
    assert [line.split(maxsplit=1)[1] for line in signatures] == [
        score.signature for score in scores.values()
    ]


def test_gzip_and_stdin(command, texts, tmp_path):
    (tmp_path / "h.gz").write_bytes(gzip.compress((texts / "near").read_bytes()))
    _, plain, _ = command("--hyp", f"x={texts / 'near'}", "--ref", texts / "ref")
    _, packed, _ = command("--hyp", f"x={tmp_path / 'h.gz'}", "--ref", texts / "ref")
    stdin = (texts / "near").read_text("utf-8")
    _, piped, _ = command("--hyp", "x=-", "--ref", texts / "ref", stdin=stdin)
    assert plain == packed == piped


@pytest.mark.parametrize("kind, flag", [("bootstrap", "bs"), ("ar", "ar")])
def test_two_systems_as_the_sacrebleu_command_compares_them(command, texts, kind, flag):
    words = ["--hyp", texts / "far", "--hyp", texts / "near", "--ref", texts / "ref"]
    words += ["--significance", kind, "--resamples", 150]
    code, output, _ = command(*words, "--json")
    assert code == 0
    theirs = ["ref", "-i", "far", "near", "-m", "bleu", "chrf", "ter", "-f", "latex", "-w", "9"]
    theirs += [f"--paired-{flag}", f"--paired-{flag}-n", "150", "--no-color"]
    printed = sacrebleu(*theirs, cwd=texts)
    found = json.loads(output)["significance"]
    assert found["kind"] == kind and found["baseline"] == "far"
    for number, system in enumerate(("far", "near")):
        (row,) = [line for line in printed.splitlines() if f" {system} &" in line]
        cells = [cell.strip(" \\") for cell in row.split("&")[1:]]
        for name, cell in zip(("bleu", "chrf", "ter"), cells, strict=True):
            ours = found["sets"]["ref"][name]["systems"][system]
            expected = f"{ours['score']:.9f}"
            if kind == "bootstrap":
                expected += f" ({ours['mean']:.9f} ± {ours['ci']:.9f})"
            if number:
                star = "*" if ours["p_value"] <= 0.05 else ""
                expected += f" (p = {ours['p_value']:.4f}){star}"
            assert cell == expected
        signatures = [found["sets"]["ref"][name]["signature"] for name in ("bleu", "ter")]
        assert all(signature in printed for signature in signatures)
    code, output, _ = command(*words)
    p = found["sets"]["ref"]["bleu"]["systems"]["near"]["p_value"]
    assert code == 0 and "far (baseline)" in output and f"p = {p:.4f}*" in output


def test_sentences(command, texts, tmp_path):
    path = tmp_path / "sentences.tsv"
    command("--hyp", texts / "near", "--ref", texts / "ref", "--sentences", path)
    header, *rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    assert header == "system set line bleu chrf ter source reference translation".split()
    assert len(rows) == 30 and [row[2] for row in rows] == [str(n) for n in range(1, 31)]
    for name, column in (("bleu", 3), ("chrf", 4)):
        printed = sacrebleu("ref", "-i", "near", "-m", name, "-sl", "-b", "-w", 4, cwd=texts)
        assert [row[column] for row in rows] == printed.split()
    assert rows[4][-1] == "größe „ja“ 5,000.50 &quot;"


def test_scoring_a_file_does_not_wait_for_tensorflow(texts):
    words = ["--hyp", str(texts / "near"), "--ref", str(texts / "ref")]
    source = (
        f"import sys\nfrom aevnmt_tf import evaluate\ncode = evaluate.main({words!r})\n"
        "assert code == 0 and 'tensorflow' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Models.


def test_a_model_is_scored_as_the_file_of_its_translations(command, runs, data, tmp_path):
    words = ["--src", data / "news.en", "--ref", data / "news.de"]
    code, output, _ = command(
        "--model", runs / "run", *words, "--json", "--output", tmp_path / "out"
    )
    assert code == 0
    (system,) = json.loads(output)["systems"]
    found = system["sets"]["news.de"]
    assert found["translations"] == str(tmp_path / "out")
    assert found["source"] == str(data / "news.en") and found["lines"] == 7
    assert system["model_type"] == "aevnmt" and system["weights"] == "best/step-000000003"
    assert system["decoding"]["search"] == "greedy"
    kept = evaluation_sets.read_lines(tmp_path / "out")
    sources = evaluation_sets.read_lines(data / "news.en")
    assert kept == translator.load(str(runs / "run")).translate(sources)
    _, again, _ = command("--hyp", tmp_path / "out", "--ref", data / "news.de", "--json")
    assert json.loads(again)["systems"][0]["all"] == system["all"]


def test_a_slash_means_a_folder(command, runs, data, tmp_path):
    words = ["--model", runs / "run", "--src", data / "news.en", "--ref", data / "news.de"]
    code, _, _ = command(*words, "--output", f"{tmp_path}/new/")
    assert code == 0 and (tmp_path / "new" / "run" / "news.de.txt").is_file()
    code, output, messages = command(*words, "--sentences", f"{tmp_path}/other/")
    assert code == 2 and "cannot write" in messages and "translating" not in messages


def test_several_sets_and_systems(command, runs, data, tmp_path):
    sets = ["--test", f"N={data / 'news'}", "--test", data / "talks"]
    models = ["--model", f"a={runs / 'run'}", "--model", f"b={runs / 'run'}"]
    flags = ["--metrics", "chrf,bleu", "--output", tmp_path / "out"]
    code, output, messages = command(*models, *sets, *flags)
    assert code == 0, messages
    table = [line.split() for line in output.splitlines()]
    assert table[0] == ["set", "system", "lines", "chrF", "BLEU"]
    assert [row[:3] for row in table[1:7]] == [
        [name, system, lines]
        for name, lines in (("N", "7"), ("talks", "5"), ("all", "12"))
        for system in "ab"
    ]
    files = [tmp_path / "out" / "a" / f"{name}.txt" for name in ("N", "talks")]
    joined = sum((evaluation_sets.read_lines(file) for file in files), [])
    references = [evaluation_sets.read_lines(data / f"{n}.de") for n in ("news", "talks")]
    together = metrics.score(joined, sum(references, []), names=["chrf"])["chrf"]
    assert table[5][3] == f"{together.value:.2f}"
    # The folders that were written are systems, too.
    folders = [f"--hyp={s}={tmp_path / 'out' / s}" for s in "ab"]
    _, again, _ = command(*folders, *sets, "--language", "de", "--metrics", "chrf,bleu")
    assert again == output


def test_a_run_knows_its_own_sets(command, runs, data):
    code, output, messages = command("--model", runs / "run", "--metrics", "bleu")
    assert code == 0 and output.splitlines()[1].split()[:3] == ["news", "run", "7"]
    assert f"the run's own files: {data / 'news.en'} and {data / 'news.de'}" in messages


def test_models_are_loaded_one_after_the_other(command, runs, data, tmp_path, monkeypatch):
    load, asked = translator.load, []
    monkeypatch.setattr(
        translator, "load", lambda run, **o: asked.append(run) or load(run, **o)
    )
    pair = [str(runs / "run"), str(runs / "cond")]
    words = ["--model", pair[0], "--model", pair[1], "--test", data / "talks"]
    code, _, messages = command(*words, "--metrics", "bleu")
    assert code == 0, messages
    assert asked == pair


def test_long_lines_are_cut_and_named(command, runs, tmp_path):
    write(tmp_path / "x", ["a b", "a " * 30])
    write(tmp_path / "y", ["a b", "b"])
    words = ["--src", tmp_path / "x", "--ref", tmp_path / "y", "--metrics", "bleu"]
    code, _, messages = command("--model", runs / "run", *words)
    assert code == 0 and "y, line 2 is cut to its first 12 subwords" in messages


def test_an_ensemble_is_a_system(command, runs, data, monkeypatch):
    """Runs with commas between them are loaded together."""
    single, asked = translator.load(str(runs / "run")), []
    monkeypatch.setattr(translator, "load", lambda path, **_: asked.append(path) or single)
    pair = [str(runs / "run"), str(runs / "cond")]
    words = ["--model", ",".join(pair), "--test", data / "talks", "--metrics", "bleu"]
    code, output, messages = command(*words, "--json")
    assert code == 0, messages
    (system,) = json.loads(output)["systems"]
    assert system["name"] == "run+cond" and system["model"] == pair and asked == [tuple(pair)]


# Text in subwords.


@pytest.fixture(scope="module")
def bpe_run(tmp_path_factory):
    """A run whose files are in BPE, as TF-NMT's are."""
    run = tmp_path_factory.mktemp("bpe") / "run"
    save_run(run, beam_width=0, infer_batch_size=6, subword_option="bpe")
    for lang in ("en", "de"):
        (run / "text" / f"vocab.{lang}.json").write_text('{"subword_option": "bpe"}')
    return run


def test_references_in_subwords_are_joined_like_translations(command, bpe_run, data, tmp_path):
    """BLEU, significance and sentences are those of sacreBLEU without the @@."""
    words = evaluation_sets.read_lines(data / "news.de")
    write(tmp_path / "bpe.de", [line.replace(" ", "@@ ", 1) for line in words])
    joined = [line.replace(" ", "", 1) for line in words]
    flags = ["--model", bpe_run, "--src", data / "news.en", "--output", tmp_path / "out"]
    code, output, messages = command(*flags, "--ref", tmp_path / "bpe.de", "--json")
    assert code == 0 and "bpe.de is in subwords" in messages
    (system,) = json.loads(output)["systems"]
    lines = evaluation_sets.read_lines(tmp_path / "out")
    expected = sacrebleu_package.corpus_chrf(lines, [joined]).score
    assert system["all"]["scores"]["chrf"]["score"] == expected
    wrong = sacrebleu_package.corpus_chrf(
        lines, [(tmp_path / "bpe.de").read_text().split("\n")]
    )
    assert expected != wrong.score
    # Files against files: whichever of them is in subwords.
    write(tmp_path / "joined.de", joined)
    write(tmp_path / "bpe.hyp", [line.replace(" ", "@@ ", 1) for line in joined])
    write(tmp_path / "joined.hyp", [line.replace(" ", "", 1) for line in joined])
    found = []
    for hyp, ref in (("joined", "joined"), ("bpe", "joined"), ("joined", "bpe")):
        words = ["--hyp", f"x={tmp_path / hyp}.hyp", "--ref", f"{tmp_path / ref}.de", "--json"]
        code, output, messages = command(*words)
        assert ("is in subwords" in messages) == ("bpe" in (hyp, ref))
        found.append(json.loads(output)["systems"][0]["all"])
    assert found[0] == found[1] == found[2]


def test_significance_and_latent_join_subwords(command, bpe_run, data, tmp_path):
    """A reference in subwords gives the p-values and the BLEU of the same one joined."""
    words = evaluation_sets.read_lines(data / "news.de")
    joined = [line.replace(" ", "", 1) for line in words]
    write(tmp_path / "joined" / "ref.de", joined)
    write(tmp_path / "bpe" / "ref.de", [line.replace(" ", "@@ ", 1) for line in words])
    near = [line[:-1] + "a" for line in joined]
    write(tmp_path / "near", near)
    write(tmp_path / "far", ["a b"] * len(joined))
    systems = ["--hyp", tmp_path / "near", "--hyp", tmp_path / "far"]
    systems += ["--metrics", "chrf", "--significance", "bootstrap", "--resamples", 100]
    model = ["--model", bpe_run, "--src", data / "news.en", "--latent", "--samples", 2]
    for flags, key in ((systems, "significance"), (model, "latent")):
        found = {}
        for name in ("joined", "bpe"):
            words = [*flags, "--ref", tmp_path / name / "ref.de", "--json"]
            code, output, messages = command(*words)
            assert code == 0, messages
            assert ("ref.de is in subwords" in messages) == (name == "bpe")
            found[name] = json.loads(output)
        one, other = (found[name][key] for name in ("bpe", "joined"))
        if key == "latent":  # likelihoods are of the subwords, BLEU is of the words
            names = ("bleu", "p_value", "changed")
            one, other = (
                {z: {k: v[k] for k in names if k in v} for z, v in each["z"].items()}
                for each in (one, other)
            )
        else:
            score = found["bpe"]["systems"][0]["all"]["scores"]["chrf"]["score"]
            assert score == sacrebleu_package.corpus_chrf(near, [joined]).score
        assert one == other


def test_protocols_are_columns_with_signatures(command, texts):
    words = ["--hyp", texts / "near", "--ref", texts / "ref", "--language", "en"]
    words += ["--metrics", "bleu,multi_bleu,ter,ter_13a", "--tokenize", "char", "--lowercase"]
    code, output, messages = command(*words)
    assert code == 0, messages
    header, _, _, *signatures = output.splitlines()
    assert header.split()[3:] == ["BLEU", "multi-BLEU", "TER", "TER-13a"]
    expected = ("case:lc|eff:no|tok:char", "tok:moses-en", "tok:tercom", "tok:13a+tercom")
    assert all(word in line for word, line in zip(expected, signatures, strict=True))
    theirs = sacrebleu("ref", "-i", "near", "-tok", "char", "-lc", "-b", "-w", 2, cwd=texts)
    assert output.splitlines()[1].split()[3] == theirs.strip()
    code, _, messages = command(*words[:-4], "chrf", *words[-3:])
    assert code == 2 and "--tokenize" in messages
    code, _, messages = command(*words[:-2], "spam")
    assert code == 2 and "--tokenize" in messages


# METEOR and BEER.


def test_meteor_and_beer_are_columns(command, texts, tmp_path):
    lines = 30
    segments = "".join(f"Segment {n} score:\t0.{n:02d}\n" for n in range(1, lines + 1))
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\ncat <<'END'\nMeteor version: 1.5\n\n"
        f"{segments}\nFinal score:            0.2512345\nEND\n"
    )
    beer = tmp_path / "beer_2.0" / "beer"
    beer.parent.mkdir()
    sentences = "".join(f"sent {n} score is 0.5\n" for n in range(1, lines + 1))
    beer.write_text(f"#!/bin/sh\ncat <<'END'\n{sentences}total BEER 0.4876\nEND\n")
    for path in (java, beer):
        path.chmod(0o755)
    (tmp_path / "meteor.jar").write_bytes(b"PK")
    words = ["--hyp", texts / "near", "--ref", texts / "ref", "--metrics", "bleu"]
    words += ["--meteor_jar", tmp_path / "meteor.jar", "--beer", beer.parent, "--java", java]
    code, output, messages = command(*words, "--language", "de", "--sentences", tmp_path / "s")
    header, row, *_ = output.splitlines()
    assert code == 0, messages
    assert header.split()[3:] == ["BLEU", "METEOR", "BEER"]
    assert row.split()[-2:] == ["25.12", "48.76"]
    assert "METEOR  nrefs:1|lang:de|tok:13a|version:1.5" in output
    table = [line.split("\t") for line in (tmp_path / "s").read_text("utf-8").splitlines()]
    assert table[0][3:6] == ["bleu", "meteor", "beer"]
    assert table[7][4:6] == ["7.0000", "50.0000"]
    code, output, messages = command(*words)
    assert code == 2 and "give --language" in messages and output == ""


# Mistakes.


@pytest.mark.parametrize(
    "words, sentence",
    [
        ([], "give --model RUN or --hyp FILE"),
        (["--hyp", "{texts}/near"], "--hyp needs --ref FILE or --test PREFIX"),
        (
            ["--hyp", "{texts}/none", "--ref", "{texts}/ref"],
            "{texts}/none",
        ),
        (["--hyp", "{texts}/ref", "--ref", "{texts}"], "{texts}: "),
        (
            ["--hyp", "{data}/news.de", "--ref", "{texts}/ref"],
            "{data}/news.de has 7 lines but {texts}/ref has 30",
        ),
        (
            ["--model", "{runs}/run", "--src", "{data}/news.en", "--ref", "{texts}/ref"],
            "{data}/news.en has 7 lines but {texts}/ref has 30",
        ),
        (["--hyp", "{tmp}/empty", "--ref", "{texts}/ref"], "{tmp}/empty is empty"),
        (["--hyp", "{texts}/ref", "--ref", "{tmp}/empty"], "{tmp}/empty is empty"),
        (["--hyp", "{tmp}/bad", "--ref", "{tmp}/bad"], "{tmp}/bad, line 2: byte 0xff is not"),
        (
            ["--hyp", "{texts}/ref", "--ref", "{texts}/ref", "--metrics", "bleu,cherf"],
            "there is no metric called cherf; did you mean chrf?",
        ),
        (
            ["--hyp", "{texts}/ref", "--ref", "{texts}/ref", "--metrics", "meteor"],
            "meteor needs --meteor_jar",
        ),
        (
            ["--hyp", "{texts}/ref", "--ref", "{texts}/ref", "--latent"],
            "--latent needs exactly one --model",
        ),
        (
            ["--model", "{runs}/cond", "--test", "{data}/news", "--latent"],
            "--latent needs a model with z; a cond model has none",
        ),
        (
            ["--model", "{runs}/run", "--test", "{data}/news", "--latent", "--z", "zero"],
            "--latent sets z itself",
        ),
        (["--model", "{runs}/run", "--plot", "z.png"], "--plot needs --latent"),
        (
            ["--model", "{runs}/run", "--latent", "--plot", "z.foo"],
            "--plot z.foo must end in .png",
        ),
        (["--model", "{runs}/run", "--src", "{data}/news.en"], "--src needs --ref"),
        (["--model", "{runs}/run", "--ref", "{data}/news.de"], "--ref needs --src"),
        (["--model", "{runs}/run", "--test", "{data}/no"], "neither {data}/no.en nor"),
        (["--model", "{data}"], "{data} is not a training run"),
        (
            ["--model", "{runs}/run", "--test", "{data}/news", "--ref", "{data}/news.de"],
            "give either --test or --src and --ref",
        ),
        (
            ["--model", "{runs}/run", "--significance", "ar"],
            "--significance compares systems: give two",
        ),
        (
            ["--hyp", "{texts}/ref", "--hyp", "{texts}/ref", "--ref", "{texts}/ref"],
            "two systems are called ref: give them names with NAME=PATH",
        ),
        (
            ["--model", "{runs}/run", "--test", "{data}/news", "--test", "{data}/news"],
            "two test sets are called news: give them names with --test NAME=PREFIX",
        ),
        (["--hyp", "{data}/news.de", "--test", "{data}/news"], "needs --language"),
        (
            ["--hyp", "{texts}/ref", "--ref", "{texts}/ref", "--sentences", "{tmp}/no/s.tsv"],
            "cannot write {tmp}/no/s.tsv",
        ),
        (
            ["--hyp", "{texts}/ref", "--ref", "{texts}/ref", "--sentences", "{texts}/ref"],
            "{texts}/ref is also an input",
        ),
        (
            ["--model", "{runs}/run", "--test", "{data}/news", "--output", "{data}/news.en"],
            "{data}/news.en is also an input",
        ),
        (
            ["--model", "{runs}/run", "--test", "{data}/news", "--sentences", "{data}/news.de"],
            "{data}/news.de is also an input",
        ),
        (
            ["--model", "{runs}/run", "--test", "{data}/news", "--output", "{tmp}/no/out"],
            "cannot write {tmp}/no/out",
        ),
        (["--hyp", "{texts}/ref", "--ref", "{texts}/ref", "--metrics", ","], "--metrics"),
        (["--hyp", "all={texts}/ref", "--ref", "{texts}/ref"], "'all' is not a valid name"),
        (["--model", "{runs}/run", "--tests", "x"], "--tests; did you mean --test?"),
        ([*HYP, "--beam_width", "5"], "--beam_width has no effect without --model"),
        ([*HYP, "--search", "greedy"], "--search has no effect without --model"),
        (
            [*HYP, "--src_max_len_infer", "5"],
            "--src_max_len_infer has no effect without --model",
        ),
        ([*HYP, "--checkpoint", "best"], "--checkpoint has no effect without --model"),
        ([*HYP, "--output", "{tmp}/out"], "--output has no effect without --model"),
        ([*HYP, "--resamples", "100"], "--resamples needs --significance"),
        (["--model", "{runs}/run", "--samples", "10"], "--samples needs --latent"),
        (
            ["--model", "{runs}/run", "--num_translations_per_input", "1"],
            "--num_translations_per_input has no effect",
        ),
        (
            ["--model", "{runs}/run", "--tgt_max_len_infer", "3000000000"],
            "--tgt_max_len_infer: must be 2147483647 or less, not 3000000000",
        ),
        (
            ["--model", "{runs}/run", "--refine_steps", "2147483648"],
            "--refine_steps: refine_steps must be 2147483647 or less",
        ),
    ],
)
def test_mistakes_are_one_sentence(command, runs, data, texts, tmp_path, words, sentence):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "bad").write_bytes(b"a\n\xff\n")
    places = {"runs": runs, "data": data, "texts": texts, "tmp": tmp_path}
    code, output, messages = command(*(word.format(**places) for word in words))
    assert code == 2 and output == ""
    assert sentence.format(**places) in messages and messages.count("\n") == 1


def test_bytes_that_are_not_utf8_can_be_replaced(command, tmp_path):
    (tmp_path / "bad").write_bytes(b"a b c d\n\xff\n")
    words = ["--hyp", tmp_path / "bad", "--ref", tmp_path / "bad", "--metrics", "bleu"]
    code, output, _ = command(*words, "--errors", "replace")
    assert code == 0 and output.splitlines()[1].split()[-1] == "100.00"


# Mistakes in a later system, or in what comes last.


@pytest.fixture(scope="module")
def bad_runs(tmp_path_factory):
    """Runs that cannot be the second system."""
    folder = tmp_path_factory.mktemp("bad_runs")
    changes = {"back": {"src": "de", "tgt": "en"}, "warm": {"sampling_temperature": 0.5}}
    for name in ("seen", "back", "warm", "young"):
        save_run(folder / name, system="KLr" if name == "seen" else "source_only", beam_width=0)
        path = folder / name / "hparams.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes.get(name, {})}))
    for place in ("best", "checkpoints"):
        shutil.rmtree(folder / "young" / place)
    shutil.copytree(folder / "seen", folder / "words")
    for path in (folder / "words" / "text").iterdir():
        path.write_text(path.read_text().replace("h", "H"))
    return folder


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--model", "b={data}"], "{data} is not a training run"),
        (["--model", "b={bad}/young"], "{bad}/young has no complete weights"),
        (["--model", "{bad}/back"], "back translates de to en and the first model en to de"),
        (["--model", "{bad}/warm", "--search", "beam"], "has no sampling_temperature"),
        (["--model", "{runs}/run", "--search", "refine"], "refine search needs q(z|x, y)"),
        (["--model", "{bad}/seen,{bad}/words"], "cannot form an ensemble"),
        (["--hyp", "{tmp}/none"], "{tmp}/none"),
        (["--hyp", "{data}/news.de"], "news.de has 7 lines but {data}/talks.de has 5"),
        (["--hyp", "{data}/talks.de", "--output", "{tmp}"], "cannot write {tmp}/a/talks.txt"),
        (["--hyp", "{data}/talks.de", "--sentences", "{tmp}"], "cannot write {tmp}"),
        (
            ["--hyp", "{tmp}/b/talks.txt", "--model", "b={runs}/run", "--output", "{tmp}/"],
            "{tmp}/b/talks.txt is also an input",
        ),
        (
            ["--hyp", "{data}/talks.de", "--metrics", "meteor", "--significance", "ar"],
            "--significance needs one of sacreBLEU's metrics",
        ),
    ],
)
def test_all_systems_are_checked_before_one_translates(
    command, runs, bad_runs, data, tmp_path, monkeypatch, words, sentence
):
    monkeypatch.setattr(evaluated_systems.Models, "_translations", None)
    shutil.copytree(data, tmp_path / "b")
    (tmp_path / "b" / "talks.de").rename(tmp_path / "b" / "talks.txt")
    if words[0] == "--hyp" and "{tmp}" in words:
        (tmp_path / "a" / "talks.txt").mkdir(parents=True)
    places = {"runs": runs, "bad": bad_runs, "data": data, "tmp": tmp_path}
    words = ["--model", "a={bad}/seen", "--test", "{data}/talks", *words]
    code, output, messages = command(*(word.format(**places) for word in words))
    assert code == 2 and output == ""
    assert sentence.format(**places) in messages and messages.count("\n") == 1


def test_a_single_sentence_has_no_other_z(command, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluated_systems.Models, "_translations", None)
    one = write(tmp_path / "one", ["a b"])
    words = ["--model", runs / "run", "--src", one, "--ref", one, "--latent"]
    code, output, messages = command(*words)
    assert code == 2 and output == ""
    assert "--latent needs at least two sentences" in messages
