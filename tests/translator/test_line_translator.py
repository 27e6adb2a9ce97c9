"""Lines of text in, lines of text out, with tiny random models."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import Decoding, Graph, Translator, decision, line_batches
from tests import tiny
from tests.tiny_translator import LINES, make

SYSTEMS = ["cond", "joint", "source_only", "KLq", "l2"]


@pytest.fixture(scope="module")
def ten():
    return make(infer_batch_size=10)


@pytest.mark.parametrize("options", [{"search": "greedy"}, {}, {"search": "sample", "seed": 3}])
def test_a_table_of_words_changes_no_translation(shared, options):
    expected, t = shared.n_best(LINES, **options), make()
    t.is_final = True
    found = t.n_best(LINES, **options)
    for a, b in zip(expected, found, strict=True):
        assert [each.text for each in a] == [each.text for each in b]
        np.testing.assert_allclose([x.score for x in a], [x.score for x in b], atol=1e-5)
    # It was used: what the embeddings have become since matters no more.
    t.model.emb_y.embeddings.assign(0 * t.model.emb_y.embeddings)
    again = t.n_best(LINES, **options)
    assert [[x.text for x in a] for a in again] == [[x.text for x in a] for a in found]
    # TensorFlow keeps what a function captures for ever.
    function = t._search_function(
        Decoding.of(t.hp, **{k: v for k, v in options.items() if k != "seed"}),
        details=False,
        with_z=False,
        with_words=True,
    )
    assert t._search_function.cache_info().currsize == 1
    shape = t._words.logits.shape
    assert all(each.shape != shape for each in function.captured_inputs)
    assert any(each.shape == shape for each in function.inputs)


def test_its_repr_says_what_it_is(shared):
    size = f"{shared.model.count_params():,} parameters"
    assert repr(shared).startswith("<Translator: aevnmt, en to de") and size in repr(shared)


def test_few_lines_and_weights_that_may_change_have_no_table():
    t = make(beam_width=0)
    assert t.translate(LINES) and t._words is None
    t.is_final = True
    few = LINES[: t.hp.infer_batch_size - 1]
    assert t.translate(few) and t._words is None
    assert t.translate(LINES) and t._words is not None


@pytest.mark.slow
def test_refine_searches_with_the_table():
    options = {"search": "refine", "refine_steps": 1, "seed": 2}
    expected, t = make("KLq").translate(LINES, **options), make("KLq")
    t.is_final = True
    assert t.translate(LINES, **options) == expected and t._words is not None


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_translates(system):
    translations = make(system, beam_width=0).translate(LINES)
    assert len(translations) == len(LINES)
    assert translations[2] == translations[6] == "", "empty in, empty out"
    assert any(translations)


@pytest.mark.parametrize(
    "options", [{}, {"search": "greedy"}, {"search": "sample", "z": "sample"}]
)
def test_a_line_does_not_depend_on_the_others(shared, options):
    together = shared.n_best(LINES, **options)
    # A line's number is part of its seed.
    alone = [shared.n_best([""] * i + [line], **options)[i] for i, line in enumerate(LINES)]
    for a, b in zip(alone, together, strict=True):
        assert [t.text for t in a] == [t.text for t in b]
        np.testing.assert_allclose([t.score for t in a], [t.score for t in b], rtol=1e-4)


def test_order_and_number_of_lines(shared):
    lines = [LINES[i % len(LINES)] for i in np.random.default_rng(0).permutation(40)]
    once = dict(zip(LINES, shared.translate(LINES), strict=True))
    assert shared.translate(lines) == [once[line] for line in lines]
    assert shared.translate([]) == []


def test_streams(shared):
    """The first results come before the whole input is read."""
    read = []

    def endless():
        for number in range(10**9):
            read.append(number)
            yield LINES[number % len(LINES)]

    results = shared.stream(endless(), decoding=Decoding.of(shared.hp))
    first = next(results)
    assert first.translations and len(read) == shared.hp.infer_batch_size
    for _ in range(300):
        next(results)
    assert len(read) <= 300 + line_batches.WINDOW * shared.hp.infer_batch_size


def test_scores_are_those_of_the_model(shared):
    """log P(y|x, z) of what was found, recomputed from whole sentences."""
    found = shared.n_best(LINES, n_best=3)
    for line, translations in zip(LINES, found, strict=True):
        if not line.strip():
            continue
        x, x_len, _ = shared.graph.encode(tf.constant([line]))
        for translation in translations:
            y = text.append_eos(shared.y_tokenizer.encode(tf.constant([translation.text])))
            batch = {"x": x, "x_len": x_len, "y": y.to_tensor(text.EOS)}
            batch["y_len"] = tf.cast(y.row_lengths(), tf.int32)
            limit = int(decision.limits(x_len, decoding=Decoding.of(shared.hp))[0])
            if len(translation.text.split()) == limit or "<unk>" in translation.text:
                continue  # it did not finish, or its words have no ids
            terms = shared.model.loss_terms(batch, z=shared.graph.z(x, x_len))
            np.testing.assert_allclose(-terms.nll_y[0], translation.log_prob, rtol=1e-4)
            penalty = ((5 + int(batch["y_len"][0])) / 6) ** shared.hp.length_penalty_weight
            np.testing.assert_allclose(
                translation.score, translation.log_prob / penalty, rtol=1e-5
            )


def test_seeds(shared):
    options = {"search": "sample", "z": "sample", "n_best": 3}
    one = shared.n_best(LINES, seed=5, **options)
    assert one == shared.n_best(LINES, seed=5, **options)
    assert one != shared.n_best(LINES, seed=6, **options)
    assert len({t.text for t in one[1]}) == 3, "a sample each"


@pytest.mark.parametrize(
    "changes, size",
    [
        ({"search": "greedy"}, 10),
        ({"search": "beam", "beam_width": 16}, 10),
        ({"search": "beam", "beam_width": 33}, 4),
        ({"search": "sample", "n_best": 80}, 2),
        ({"search": "sample", "n_best": 80, "z": "sample"}, 2),
        ({"search": "mbr", "num_samples": 1000}, 1),
    ],
)
def test_many_hypotheses_come_in_smaller_batches(ten, monkeypatch, changes, size):
    """Or their logits would take all memory."""
    monkeypatch.setattr(machine, "num_cores", lambda: 1)
    t, seen = ten, []
    found = t.encoder.batches

    def batches(lines, **options):
        made = list(found(lines, **options))
        seen.extend(len(rows) for rows, *_ in made)
        raise InterruptedError  # that is all

    monkeypatch.setattr(t.encoder, "batches", batches)
    with pytest.raises(InterruptedError):
        t.translate(["a b"] * 20, **changes)
    assert max(seen) == size


@pytest.mark.slow
def test_lengths(shared):
    long = shared.n_best(LINES, force_length=9, n_best=3)
    for line, translations in zip(LINES, long, strict=True):
        for t in translations:
            assert not line.strip() or len(t.text.split()) in (8, 9)
    for t in shared.translate(LINES, max_length=2):
        assert len(t.split()) <= 2


def test_long_lines_are_cut():
    t = make(src_max_len_infer=3, beam_width=0)
    results = list(t.stream(["a b c", "a b c d e"], decoding=Decoding.of(t.hp)))
    assert [r.was_cut for r in results] == [False, True]
    assert results[0].translations[0].text == results[1].translations[0].text


def test_details(shared):
    (result,) = shared.stream(["a b zz"], decoding=Decoding.of(shared.hp), details=True)
    assert result.source_pieces == ["a", "b", "<unk>", "</s>"]
    best = result.translations[0]
    assert best.attention.shape == (len(best.target_pieces), 4)
    np.testing.assert_allclose(best.attention.sum(1), 1, rtol=1e-5)
    x, x_len, _ = shared.graph.encode(tf.constant(["a b zz"]))
    np.testing.assert_allclose(best.z, shared.graph.z(x, x_len)[0], rtol=1e-5)


def test_new_weights_are_used(shared):
    """The dev scores during training come from one translator."""
    t = make(beam_width=0)
    before = t.translate(LINES)
    tiny.randomise(t.model, seed=9, scale=0.8)
    assert t.translate(LINES) != before


def test_moses_models_take_raw_text():
    class Pipeline:
        def forward(self, line):
            return line.lower().replace(",", " ,")

        def inverse(self, line):
            return line.upper()

    plain = make(beam_width=0)
    t = Translator(plain.graph, x_moses=Pipeline(), y_moses=Pipeline())
    assert t.translate(["A B, c"]) == [plain.translate(["a b , c"])[0].upper()]


def test_sentencepiece(tmp_path):
    from aevnmt_tf.text import sentencepiece_tokenizer

    lines = [f"the house number {i} is red and blue" for i in range(50)]
    proto = sentencepiece_tokenizer.train(lines, vocab_size=320)
    tokenizer = text.SentencePieceTokenizer(proto)
    model = tiny.build(
        "source_only", vocab_x=tokenizer.vocab_size, vocab_y=tokenizer.vocab_size
    )
    hp = tiny.settings("source_only", beam_width=0)
    t = Translator(Graph(model, tokenizer, tokenizer, hp))
    odd = ["the house", "", "\0", "a\0b", " \u2028 ", "\U0001f600 日本", "x" * 3000]
    assert len(t.translate(odd)) == len(odd)


def test_a_misspelt_option_names_the_nearest(shared):
    for call in (shared.translate, shared.n_best):
        with pytest.raises(UserError, match="no option beam_widht; did you mean beam_width"):
            call(["a"], beam_widht=3)


def test_n_best_of_translate_are_lists(shared):
    expected = [[t.text for t in found] for found in shared.n_best(LINES, n_best=2)]
    assert shared.translate(LINES, n_best=2) == expected
    assert shared.translate(LINES, n_best=1) == [[texts[0]] for texts in expected]
    assert shared.translate(LINES) == [texts[0] for texts in expected]


def test_unknown_words_are_counted(shared):
    found = shared.stream(["a zz b yy", "", "a"], decoding=Decoding.of(shared.hp))
    assert [(line.num_words, line.num_unknown) for line in found] == [(4, 2), (0, 0), (1, 0)]
