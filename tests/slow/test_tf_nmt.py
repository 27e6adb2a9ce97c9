"""TF-NMT's recipes, as its users run them: pre-tokenised text, vocabulary files, an out_dir."""

import collections
import json
import re
from pathlib import Path

import numpy as np
import pytest

from aevnmt_tf import export, train, translate, translator
from aevnmt_tf.data.demo_corpus import write_demo
from tests import tiny_run
from tests.hparams.test_tf_nmt_names import RECIPE, RECIPES
from tests.serving.running import running_server, strict

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*has no meaning here"),
]


def write_vocabularies(folder, *, special=True):
    """Write vocab.LANG with the words of train.LANG, the most frequent first."""
    for lang in ("en", "de"):
        text = (Path(folder) / f"train.{lang}").read_text(encoding="utf-8")
        words = [word for word, _ in collections.Counter(text.split()).most_common()]
        words = [*(["<unk>", "<s>", "</s>"] if special else []), *words]
        path = Path(folder) / f"vocab.{lang}"
        path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def flags(folder, out_dir, recipe, **more):
    """Flags of `aevnmt train` for one of TF-NMT's files and the text of a folder."""
    settings = Path(folder) / f"{recipe}.json"
    settings.write_text(json.dumps({**RECIPE, **RECIPES[recipe]}, indent=2))
    given = {
        "hparams": settings,
        "src": "en",
        "tgt": "de",
        "train_prefix": folder / "train",
        "dev_prefix": folder / "dev",
        "vocab_prefix": folder / "vocab",
        "out_dir": out_dir,
        **more,
    }
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_a_recipe_trains_resumes_translates_and_is_served(tmp_path, capsys, recipe):
    folder = tmp_path / "corpus"
    tiny_run.write_corpus(folder)
    write_vocabularies(folder, special=False)  # they get <unk>, <s> and </s>
    small = {"num_units": 32, "batch_size": 8, "steps_per_stats": 5}
    small |= {"steps_per_external_eval": 10, "metrics": "bleu,rouge,accuracy,word_accuracy"}
    for steps in (10, 20):
        words = flags(folder, tmp_path / "run", recipe, num_train_steps=steps, **small)
        assert train.main(words) == 0
    lines = tiny_run.read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines if "loss" in line] == [5, 10, 15, 20]
    assert {"dev_bleu", "dev_rouge", "dev_accuracy", "dev_word_accuracy"} <= set(lines[-1])

    model = ["--model", str(tmp_path / "run")]
    capsys.readouterr()
    # At step 10, perhaps the best, a single hypothesis may finish.
    words = [*model, "--input", str(folder / "dev.en"), "--n_best", "2"]
    words += ["--checkpoint", "last"]
    assert translate.main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 6 and all(line.count("\t") == 1 for line in printed)
    assert translate.main([*words, "--lines", "0,3", "--coverage_penalty_weight", "0.2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2

    assert export.main([*model, "--export_dir", str(tmp_path / "export")]) == 0
    sources, targets = (
        (folder / f"dev.{lang}").read_text().splitlines() for lang in ("en", "de")
    )
    with running_server(tmp_path / "export") as server:
        check_served(server, translator.load(str(tmp_path / "run")), sources, targets)


def check_served(server, loaded, sources, targets):
    """Compare what the server answers over REST with the model offline."""

    def ask(signature, instances):
        document = {"signature_name": signature, "instances": instances}
        return strict(server.predict(document))["predictions"]

    found = [row["translation"] for row in ask("serving_default", sources)]
    assert found == loaded.translate(sources)
    for row, expected in zip(
        ask("nbest", sources), loaded.n_best(sources, n_best=5), strict=True
    ):
        number = len(expected)
        assert row["translations"][:number] == [best.text for best in expected]
        np.testing.assert_allclose(
            row["scores"][:number], [best.score for best in expected], rtol=1e-4
        )
    # After so few steps a translation may be empty; the probability of a sentence never is.
    pairs = [{"source": x, "target": y} for x, y in zip(sources, targets, strict=True)]
    expected = loaded.score(sources, targets)["log_py"]
    np.testing.assert_allclose(ask("score", pairs), expected, rtol=1e-4)


def test_vectors_of_embed_prefix_stay_as_they_are(tmp_path):
    tiny_run.write_corpus(tmp_path)
    write_vocabularies(tmp_path)
    vectors = {}
    for lang in ("en", "de"):
        words = (tmp_path / f"vocab.{lang}").read_text().split()[3:]
        vectors[lang] = np.arange(len(words) * 8, dtype=np.float32).reshape(-1, 8) / 100
        rows = zip(words, vectors[lang], strict=True)
        lines = [" ".join([word, *map(str, row)]) for word, row in rows]
        (tmp_path / f"glove.{lang}").write_text("\n".join(lines) + "\n")
    small = {"num_units": 8, "batch_size": 8, "num_train_steps": 10}
    small |= {"embed_prefix": tmp_path / "glove", "steps_per_external_eval": 10}
    assert train.main(flags(tmp_path, tmp_path / "run", "iwslt15", **small)) == 0
    model = translator.load(str(tmp_path / "run")).model
    np.testing.assert_array_equal(model.emb_x.given, vectors["en"])
    np.testing.assert_array_equal(model.emb_y.given, vectors["de"])


def test_an_iwslt15_model_learns_the_demo_corpus(tmp_path):
    write_demo(tmp_path)
    for name in ("train", "dev"):
        for lang in ("en", "de"):
            path = tmp_path / f"{name}.{lang}"
            tokens = re.sub(r"([^\w\s])", r" \1 ", path.read_text(encoding="utf-8"))
            lines = [" ".join(line.split()) for line in tokens.splitlines()]
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_vocabularies(tmp_path)
    small = {"num_units": 96, "num_train_steps": STEPS, "steps_per_external_eval": STEPS}
    words = flags(tmp_path, tmp_path / "run", "iwslt15", beam_width=5, **small)
    assert train.main(words) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["best"]["dev_bleu"] > 50


STEPS = 1500
