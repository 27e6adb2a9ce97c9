"""The development set: scores, several sets, interruptions; with a made-up translator."""

import sys
import types

import numpy as np
import pytest

from aevnmt_tf import hparams
from aevnmt_tf import model as models
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.corpus_preparation import ensure_prepared
from aevnmt_tf.training import dev_evaluation
from tests import tiny_run


class Dictionary:
    """Stands for a translator that knows every word, and takes notes."""

    def __init__(self, graph, **_):
        self.model = graph.model
        self.calls = []

    def embed(self, lines):
        """The number of each line is its z."""
        return np.arange(len(lines))[:, None], None

    def stream(self, lines, *, decoding, details=False, z=None):
        self.calls.append(decoding)
        if z is not None:  # which decides on the translation
            assert sorted(z[:, 0]) == list(range(len(lines)))
            assert not np.any(z[:, 0] == range(len(lines)))
            lines = [lines[number] for number in z[:, 0]]
        for line in lines:
            words = [tiny_run.WORDS[word] for word in line.split()]
            translation = types.SimpleNamespace(
                text=" ".join(words),
                target_pieces=words,
                attention=np.eye(len(words)),
            )
            yield types.SimpleNamespace(translations=[translation], source_pieces=line.split())

    def sample(self, number, *, seed):
        return [("x", "y")] * number


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return a function that makes a DevEvaluator of a tiny run."""
    monkeypatch.setattr(dev_evaluation, "Translator", Dictionary)

    def make(**changes):
        hp = hparams.load(tiny_run.write_settings(tmp_path, **changes))
        prepared = ensure_prepared(hp, tmp_path / "text", report=lambda _: None)
        sizes = prepared.x_tokenizer.vocab_size, prepared.y_tokenizer.vocab_size
        return dev_evaluation.DevEvaluator(prepared, model=models.build(hp, *sizes))

    return make


def test_a_system_without_z(make):
    found = make(model_type="cond", metrics=["bleu", "ter"])(7)
    assert found.values["dev_bleu"] == pytest.approx(100.0)
    assert found.values["dev_ter"] == 0.0
    assert found.values["dev_chrf"] == pytest.approx(100.0)
    assert "dev_active_units" not in found.values and found.projection is None
    assert len(found.translations) == 6 and len(found.attention) == 5
    assert all(reference == translation for _, reference, translation in found.translations)
    source, reference, translation = found.translations[0]
    assert reference == translation == " ".join(tiny_run.WORDS[w] for w in source.split())
    assert found.prior_samples == []


def test_bleu_with_the_z_of_another_sentence(make):
    found = make(metrics=["bleu", "bleu_other_z"])(7)
    assert found.values["dev_bleu"] == pytest.approx(100.0)
    assert found.values["dev_bleu_other_z"] < 50.0
    assert "dev_bleu_other_z" not in make(metrics=["bleu"])(7).values


def test_dev_bleu_is_searched_never_sampled(make):
    evaluator = make(model_type="cond", sampling_temperature=0.5, beam_width=0)
    evaluator(1)
    assert {call.search for call in evaluator._translator.calls} == {"greedy"}


def test_references_in_subwords_are_joined(make, tmp_path):
    """A perfect translation has BLEU 100, also where the files are in BPE."""
    prefix = tiny_run.write_corpus(tmp_path / "words")["dev"]
    path = tmp_path / "words" / "dev.de"
    path.write_text(path.read_text().replace("eins", "ei@@ ns").replace("haus", "h@@ au@@ s"))
    assert "@@ " in path.read_text()
    found = make(model_type="cond", subword_option="bpe", dev_prefix=prefix)(1)
    scores = [found.values["dev_bleu"], found.values["dev_chrf"]]
    assert scores == pytest.approx([100.0, 100.0])
    assert not any("@@" in reference for _, reference, _ in found.translations)


def test_several_sets_with_z(make, tmp_path):
    prefix = tiny_run.write_corpus(tmp_path / "corpus")["dev"]
    other = tiny_run.write_corpus(tmp_path / "other", dev=3, seed=5)["dev"]
    lines = (tmp_path / "other" / "dev.de").read_text().splitlines()
    (tmp_path / "other" / "dev.de").write_text("".join("haus\n" for _ in lines))
    (tmp_path / "corpus" / "dev.register").write_text("0\n1\n1\n0\n0\n0\n")  # as the demo has
    (tmp_path / "other" / "dev.register").write_text("1\n1\n1\n")
    found = make(dev_prefix=[prefix, other])(1)
    assert found.values["dev_bleu_0_dev"] == pytest.approx(100.0)
    assert found.values["dev_bleu_1_dev"] < 1.0
    assert 1.0 < found.values["dev_bleu"] < 99.0
    assert found.projection["vectors"].shape == (9, 4)
    assert {len(column) for column in found.projection["metadata"].values()} == {9}
    assert list(found.projection["metadata"]) == ["text", "corpus", "length", "register"]
    assert found.projection["metadata"]["register"].count("talk") == 5
    correct = [row for row in found.translations if row[1] == row[2]]
    assert len(correct) == 6 and len(found.translations) == 9
    assert {row[1] for row in found.translations if row not in correct} == {"haus"}
    names = found.projection["metadata"]["corpus"]
    assert sorted(set(names)) == ["corpus_dev", "other_dev"] and names.count("other_dev") == 3
    assert found.kl_by_dimension.shape == (4,)
    assert found.prior_samples == [("x", "y")] * 5


def test_an_interruption_gives_nothing(make):
    evaluator = make(model_type="cond")
    asked = []

    def interrupted():
        asked.append(1)
        return len(asked) > 3  # after the bounds, while translating

    assert evaluator(1, interrupted) is None
    assert len(evaluator._translator.calls) == 1


def test_an_empty_set_is_an_error(make, tmp_path):
    for lang in ("en", "de"):
        (tmp_path / f"nothing.{lang}").write_text("")
    with pytest.raises(UserError, match="nothing"):
        make(dev_prefix=str(tmp_path / "nothing"))


def test_without_matplotlib_there_are_no_attention_images_and_one_line_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    evaluator = object.__new__(dev_evaluation.DevEvaluator)
    with pytest.warns(UserWarning, match=r"aevnmt_tf\[plots\]"):
        assert evaluator._attention(["a"]) == []
