"""Sentences and what to predict of them: labels, lengths, the quality of translations."""

import random
import types

import numpy as np
import pytest
from sacrebleu import sentence_chrf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.probing import probe_data, probe_run
from aevnmt_tf.probing.probe_request import ProbeRequest
from aevnmt_tf.probing.probe_run import make_task, read_sentences
from tests.tiny_translator import make


@pytest.fixture(scope="module")
def model():
    """A translator with z, traced once."""
    return make("source_only", src="en", tgt="de")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with first.en and first.de."""
    folder = tmp_path_factory.mktemp("data")
    for seed, language in ((0, "en"), (9, "de")):
        dice = random.Random(seed)
        lines = [" ".join(dice.choices("abcd", k=dice.randint(2, 7))) for _ in range(40)]
        write(folder / f"first.{language}", lines)
    return folder


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def ask(data, **options):
    return ProbeRequest("run", data, **options)


def test_the_length_is_in_subwords(model, data):
    request = ask([f"x={data}/first"], target="length")
    t = model
    found = read_sentences(request, t.hp)
    expected = [len(text.split()) for text in found.texts]
    assert make_task(request, t, found).values.tolist() == expected


def test_the_quality_of_translations(model, data):
    t = model
    request = ask([f"x={data}/first"], target="chrf", search="greedy", held_out=0.5)
    found = read_sentences(request, t.hp)
    task = make_task(request, t, found)
    references = (data / "first.de").read_text().splitlines()
    translations = t.translate(found.texts, search="greedy")
    pairs = zip(translations, references, strict=True)
    expected = [sentence_chrf(ours, [theirs]).score for ours, theirs in pairs]
    np.testing.assert_allclose(task.values, expected)
    assert task.name == "chrf" and len(set(task.values)) > 5


def test_the_quality_of_back_translations(model, tmp_path):
    """Features of the back-translation, scored against the sentence that a person wrote."""
    gold = [f"{letter} b c d" for letter in "abcdefgh"]
    made = ["a b c d", *(f"{letter} b" for letter in "bcdefgh")]
    write(tmp_path / "dev.en", [*gold, "", "c c"])
    write(tmp_path / "dev.translation.en", [*made, "a", ""])
    t = model
    request = ask(
        [f"dev={tmp_path}/dev"], target="chrf", quality_of="back_translations", held_out=0.5
    )
    found = read_sentences(request, t.hp)
    assert found.texts == [*made, "a"] and found.left_out == 1
    values = make_task(request, t, found).values
    pairs = zip([*made, "a"], [*gold, ""], strict=True)
    np.testing.assert_allclose(values, [sentence_chrf(a, [b]).score for a, b in pairs])
    assert values[0] == pytest.approx(100)
    (tmp_path / "dev.translation.en").unlink()
    with pytest.raises(UserError, match="no back-translations .*aevnmt translate"):
        read_sentences(request, t.hp)


def test_meteor_through_its_program(model, data, tmp_path):
    """A stand-in for Java that prints what METEOR prints."""
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\n"
        'i=0; while read -r line; do i=$((i+1)); echo "Segment $i score:  0.$i"; done < "$4"\n'
        'echo "Final score: 0.5"\n'
    )
    java.chmod(0o755)
    jar = write(tmp_path / "meteor-1.5.jar", [])
    write(tmp_path / "d.translation.en", ["a b", "c", "d d", "e"])
    write(tmp_path / "d.en", ["a", "c", "d", "e"])
    options = {"target": "meteor", "quality_of": "back_translations", "held_out": 0.5}
    request = ask([f"{tmp_path}/d"], meteor_jar=str(jar), java=str(java), **options)
    t = model
    task = make_task(request, t, read_sentences(request, t.hp))
    np.testing.assert_allclose(task.values, [10, 20, 30, 40])
    with pytest.raises(UserError, match="--meteor_jar"):
        read_sentences(ask([f"{tmp_path}/d"], **options), t.hp)


def test_gold_against_synthetic(model, tmp_path):
    write(tmp_path / "dev.en", ["a b", "c d", "e", "f"])
    write(tmp_path / "dev.translation.en", ["a b", "d", "", "f f"])
    t = model
    request = ask(
        [f"gold={tmp_path}/dev", f"synthetic={tmp_path}/dev.translation"], held_out=0.3
    )
    found = read_sentences(request, t.hp)
    assert found.sets == ["gold"] * 4 + ["synthetic"] * 3
    assert found.lines == [1, 2, 3, 4, 1, 2, 4]
    task = make_task(request, t, found)
    assert task.held_out[0] == task.held_out[4]  # the same sentence


def test_a_sentence_and_its_back_translation_stay_on_one_side(model, tmp_path):
    write(tmp_path / "dev.en", [f"a {n}" for n in range(300)])
    write(tmp_path / "dev.translation.en", [f"b {n}" if n % 9 else "" for n in range(300)])
    t = model
    for gold, synthetic in (("dev", "dev.translation"), ("dev.en", "dev.translation.en")):
        data = [f"gold={tmp_path}/{gold}", f"synthetic={tmp_path}/{synthetic}"]
        request = ask(data, held_out=0.25, max_lines=100)
        found = read_sentences(request, t.hp)
        lines = {name: set() for name in ("gold", "synthetic")}
        for name, line in zip(found.sets, found.lines, strict=True):
            lines[name].add(line)
        assert len(lines["gold"] & lines["synthetic"]) > 75  # the same lines are drawn
        task = make_task(request, t, found)
        sides = {}
        for line, is_out in zip(found.lines, task.held_out, strict=True):
            sides.setdefault(line, set()).add(bool(is_out))
        assert {len(side) for side in sides.values()} == {1}
        counts = np.bincount(task.test)
        assert counts.min() >= 20 and counts.sum() == pytest.approx(50, abs=1)


def test_long_files_are_sampled(model, tmp_path):
    write(tmp_path / "long.en", [f"{'a ' * (n % 7)} b {n}" for n in range(500)])
    hp = model.hp
    found = read_sentences(ask([f"{tmp_path}/long"], max_lines=30), hp)
    assert len(found) == 30 and found.lines == sorted(set(found.lines))
    assert max(found.lines) > 300  # not only the first
    assert [int(text.split()[-1]) for text in found.texts] == [n - 1 for n in found.lines]
    again = read_sentences(ask([f"{tmp_path}/long"], max_lines=30), hp)
    assert again.lines == found.lines
    other = read_sentences(ask([f"{tmp_path}/long"], max_lines=30, seed=2), hp)
    assert other.lines != found.lines
    assert len(read_sentences(ask([f"{tmp_path}/long"]), hp)) == 500


@pytest.mark.parametrize("quality_of", ["translations", "back_translations"])
def test_quality_is_that_of_words(quality_of, monkeypatch):
    """References in BPE are joined, as translations are; so are back-translations."""
    texts, references = ["lo@@ w ri@@ sk", "a@@ b"], ["lo@@ w@@ er risk", "a@@ c"]
    translations = texts if quality_of == "back_translations" else ["low risk", "ab"]

    def stream(lines, *, decoding, seed):
        for line in translations:
            yield types.SimpleNamespace(translations=[types.SimpleNamespace(text=line)])

    hp = types.SimpleNamespace(subword_option="bpe", src="en", tgt="de")
    translator = types.SimpleNamespace(hp=hp, stream=stream)
    request = ask(["dev"], target="chrf", quality_of=quality_of)
    monkeypatch.setattr(probe_run.Decoding, "of", lambda hp, **changes: None)
    sentences = probe_data.ProbeSentences(texts, columns={"reference": references})
    found = probe_run.quality(request, translator, sentences)
    joined = zip(["low risk", "ab"], ["lower risk", "ac"], strict=True)
    assert list(found) == [sentence_chrf(ours, [y]).score for ours, y in joined]
