"""TF-NMT's language_model: P(y) of the target's file, trained, scored, and nothing else."""

import itertools
import math

import numpy as np
import pytest

import aevnmt_tf
from aevnmt_tf import evaluate, export, sample, score, train, translate
from tests import tiny, tiny_run

LINES = ["rot haus", "zwei und drei", "", "baum"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a corpus without source files."""
    folder = tmp_path_factory.mktemp("lm")
    changes = {"model_type": "cond", "language_model": True, "unit_type": "lstm"}
    path = tiny_run.write_settings(folder, **changes)
    for file in (folder / "corpus").glob("*.en"):
        file.unlink()
    assert train.main(["--hparams", str(path)]) == 0
    return folder / "run"


def test_training_lowers_the_cost(run):
    costs = [line["dev_nll_y"] for line in tiny_run.read_metrics(run) if "dev_nll_y" in line]
    assert len(costs) == 2 and costs[1] < costs[0]


def test_a_score_is_the_sum_of_the_steps(run, tmp_path, capsys):
    (tmp_path / "y.de").write_text("\n".join(LINES) + "\n")
    capsys.readouterr()
    assert score.main(["--model", str(run), "--src", str(tmp_path / "y.de")]) == 0
    names, *rows = capsys.readouterr().out.splitlines()
    assert names.split("\t")[0] == "log_py"
    loaded = aevnmt_tf.load(run)
    others = loaded.score(LINES[::-1], LINES)["log_py"]
    for line, row, other in zip(LINES, rows, others, strict=True):
        ids = loaded.y_tokenizer.encode([line])
        ids = [*np.asarray(ids.to_list()[0] if hasattr(ids, "to_list") else ids[0])]
        ids = ids if ids and ids[-1] == tiny.EOS else [*ids, tiny.EOS]
        expected = log_p(loaded.model, ids)
        assert float(row.split("\t")[0]) == pytest.approx(expected, abs=1e-4)
        assert other == pytest.approx(expected, abs=1e-4)  # whatever the source


def log_p(model, ids):
    memory, state = model.start(np.array([[tiny.EOS]]), np.array([1]))
    total = 0.0
    for before, word in zip([1, *ids[:-1]], ids, strict=True):
        logits, state, _ = tiny.step(model, memory, state, np.array([before]))
        logits = logits.numpy()[0].astype(np.float64)
        total += logits[word] - np.logaddexp.reduce(logits)
    return total


def test_probabilities_of_all_texts_sum_to_one():
    """Those of all complete texts of up to 3 words, and of all that are longer."""
    size = 5
    options = {"language_model": True, "unit_type": "lstm", "num_units": 4}
    model = tiny.build("cond", vocab_x=size, vocab_y=size, **options)
    words = [word for word in range(size) if word != tiny.EOS]
    texts = [[*text, tiny.EOS] for n in range(4) for text in itertools.product(words, repeat=n)]
    finished = sum(np.exp(-model(tiny.batch([(y, y) for y in texts])).nll_y.numpy()))
    going_on = sum(
        math.exp(log_p(model, list(text))) for text in itertools.product(words, repeat=4)
    )
    assert 0.05 < finished < 0.99
    assert finished + going_on == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("verb", "words", "named"),
    [
        (translate, ["--input", "FILE"], "language_model"),
        (evaluate, ["--src", "FILE", "--ref", "FILE"], "language_model"),
        (export, ["--export_dir", "FOLDER"], "language_model"),
        (sample, ["--num", "2"], "P(x)"),
    ],
)
def test_other_verbs_say_why_not(run, tmp_path, capsys, verb, words, named):
    (tmp_path / "FILE").write_text("rot\n")
    words = [str(tmp_path / w) if w in ("FILE", "FOLDER") else w for w in words]
    assert verb.main(["--model", str(run), *words]) == 2
    message = capsys.readouterr().err
    assert named in message and len(message.strip().splitlines()) == 1
    assert not (tmp_path / "FOLDER").exists()
