"""What a SavedModel answers is what the translator says offline."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from aevnmt_tf.serving import op_check
from aevnmt_tf.translator import Decoding
from tests import tiny_export

LOWEST = float(np.finfo(np.float32).min)
SOURCES = ["one two three", "red house and blue tree five", "", "four", "zz Zürich", "two two"]
TARGETS = ["eins", "", "zwei drei", "rot haus und", "vier vier", "fünf"]
SEEDS = [3, 1, 4, 1, 5, -9]
INPUTS = {
    "serving_default": {"source": SOURCES},
    "nbest": {"source": SOURCES},
    "sample": {"source": SOURCES, "seed": SEEDS},
    "mbr": {"source": SOURCES, "seed": SEEDS},
    "score": {"source": SOURCES, "target": TARGETS},
    "attention": {"source": SOURCES},
    "embed": {"source": SOURCES},
}
OUTPUTS = {
    "serving_default": {"translation": 1, "score": 1},
    "nbest": {"translations": 2, "scores": 2},
    "sample": {"translations": 2},
    "mbr": {"translation": 1, "score": 1},
    "score": dict.fromkeys("elbo log_px log_py kl iw_log_pxy iw_log_px".split(), 1),
    "attention": {"translation": 1, "source_pieces": 2, "target_pieces": 2, "attention": 3},
    "embed": {"loc": 2, "scale": 2},
}


@pytest.fixture(scope="module")
def served(folder):
    return tf.saved_model.load(str(folder))


@pytest.fixture(scope="module")
def answers(served):
    return {name: tiny_export.ask(served, name, **inputs) for name, inputs in INPUTS.items()}


def test_names_types_and_ranks(served, answers):
    assert set(served.signatures) == set(OUTPUTS)
    for name, outputs in OUTPUTS.items():
        found = served.signatures[name].structured_outputs
        assert {key: spec.shape.rank for key, spec in found.items()} == outputs
        assert all(len(value) == len(SOURCES) for value in answers[name].values())
        for value in answers[name].values():
            assert value.dtype in (np.float32, object)
            assert value.dtype == object or np.isfinite(value).all()


def test_200_sentences_are_the_same_offline(served, offline):
    lines = tiny_export.sentences(200)
    decoding = Decoding.of(offline.hp)
    expected = [r.translations[0] for r in offline.stream(lines, decoding=decoding)]
    texts, scores = [], []
    for first in range(0, 200, 40):
        found = tiny_export.ask(served, "serving_default", source=lines[first : first + 40])
        texts += found["translation"].tolist()
        scores += found["score"].tolist()
    assert texts == [t.text for t in expected]
    assert len(set(texts)) > 50
    np.testing.assert_allclose(scores, [t.score for t in expected], atol=1e-4)


@pytest.mark.slow
def test_nbest(answers, offline):
    found = answers["nbest"]
    for row, translations in enumerate(offline.n_best(SOURCES, n_best=3)):
        missing = 3 - len(translations)
        texts = [t.text for t in translations] + [""] * missing
        scores = [t.score for t in translations] + [LOWEST] * missing
        assert found["translations"][row].tolist() == texts
        np.testing.assert_allclose(found["scores"][row], scores, atol=1e-4)
    assert found["scores"][2].tolist() == [0, LOWEST, LOWEST]  # an empty line has one


@pytest.mark.slow
def test_sample(served, answers, offline):
    found = answers["sample"]["translations"]
    for row in (0, 1, 4):
        decoding = Decoding(search="sample", z="sample", n_best=4)
        (result,) = offline.stream([SOURCES[row]], decoding=decoding, seed=SEEDS[row])
        assert found[row].tolist() == [t.text for t in result.translations]
    assert len(set(found[0])) > 1
    other = tiny_export.ask(served, "sample", source=SOURCES[:1], seed=[4])["translations"]
    assert other.tolist() != found[:1].tolist()


def test_mbr(answers, offline):
    found = answers["mbr"]
    for row in (0, 1, 2, 4):
        rule = {"search": "mbr", "references": "aggregate", "num_samples": 6}
        ((best,),) = offline.n_best([SOURCES[row]], seed=SEEDS[row], **rule)
        assert found["translation"][row] == best.text
        np.testing.assert_allclose(found["score"][row], best.score, atol=1e-4)


@pytest.mark.slow
def test_score(answers, offline):
    for row in range(len(SOURCES)):
        expected = offline.score(SOURCES[row : row + 1], TARGETS[row : row + 1], samples=3)
        for name, values in answers["score"].items():
            np.testing.assert_allclose(values[row], expected[name][0], rtol=1e-4, atol=1e-4)
    found = answers["score"]
    np.testing.assert_allclose(
        found["elbo"], found["log_px"] + found["log_py"] - found["kl"], rtol=1e-4
    )


@pytest.mark.slow
def test_attention(answers, offline):
    found = answers["attention"]
    assert found["translation"].tolist() == answers["serving_default"]["translation"].tolist()
    results = offline.stream(SOURCES, decoding=Decoding.of(offline.hp), details=True)
    for row, result in enumerate(results):
        best = result.translations[0]
        time_x, time_y = len(result.source_pieces), len(best.target_pieces)
        for side, pieces in (("source", result.source_pieces), ("target", best.target_pieces)):
            padding = [""] * (found[f"{side}_pieces"].shape[1] - len(pieces))
            assert found[f"{side}_pieces"][row].tolist() == pieces + padding
        weights = found["attention"][row]
        np.testing.assert_allclose(weights[:time_y, :time_x], best.attention, atol=1e-5)
        np.testing.assert_allclose(weights[:time_y].sum(-1), 1, atol=1e-5)
        assert not weights[time_y:].any() and not weights[:, time_x:].any()
    assert found["target_pieces"].shape[1] == max(
        sum(piece != "" for piece in row) for row in found["target_pieces"]
    )


def test_embed(answers, offline):
    for name, expected in zip(("loc", "scale"), offline.embed(SOURCES), strict=True):
        np.testing.assert_allclose(answers["embed"][name], expected, atol=1e-5)


@pytest.mark.parametrize("name", INPUTS)
def test_a_row_is_the_same_in_any_batch(served, answers, name):
    for rows in ([1], [4, 0], [2, 5, 3]):
        inputs = {key: [value[row] for row in rows] for key, value in INPUTS[name].items()}
        found = tiny_export.ask(served, name, **inputs)
        for key, value in found.items():
            together = answers[name][key][rows]
            for axis, size in enumerate(value.shape):  # of the longest row
                rest = np.take(together, range(size, together.shape[axis]), axis)
                assert not rest.astype(bool).any()
                together = np.take(together, range(size), axis)
            if value.dtype == object:
                assert value.tolist() == together.tolist()
            else:
                np.testing.assert_allclose(value, together, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", INPUTS)
def test_an_empty_batch(served, answers, name):
    types = {"seed": tf.int32}
    inputs = {key: tf.zeros([0], types.get(key, tf.string)) for key in INPUTS[name]}
    for key, value in tiny_export.ask(served, name, **inputs).items():
        assert value.shape[0] == 0 and value.ndim == OUTPUTS[name][key]
        assert value.dtype == answers[name][key].dtype


def test_nothing_to_translate(served):
    found = tiny_export.ask(served, "serving_default", source=["", "   ", "\t"])
    assert found["translation"].tolist() == [""] * 3 and not found["score"].any()


def test_long_lines_are_cut(served, offline):
    line = "one two three four five red " * 50
    found = tiny_export.ask(served, "serving_default", source=[line])
    assert found["translation"].tolist() == offline.translate([line])
    pieces = tiny_export.ask(served, "attention", source=[line])["source_pieces"]
    assert pieces.shape == (1, 13)  # 12 and </s>


@pytest.mark.parametrize(
    "line", [b"one \xff two", b"\xc3", b"a\x00b", b"\xed\xa0\x80", b"\xf0\x9f"]
)
def test_invalid_text_is_replaced(served, offline, line):
    """As offline with --errors replace."""
    inputs = {"source": np.array([line], object)}
    expected = offline.translate([line.decode("utf-8", errors="replace")])
    found = tiny_export.ask(served, "serving_default", **inputs)
    assert found["translation"].tolist() == expected
    for name in ("score", "sample"):
        more = {"score": {"target": inputs["source"]}, "sample": {"seed": [1]}}[name]
        tiny_export.ask(served, name, **inputs, **more)  # answers that are valid UTF-8


@pytest.mark.parametrize(
    "name, more", [("score", {"target": ["eins"]}), ("sample", {"seed": [1]})]
)
def test_inputs_must_have_as_many_rows(served, name, more):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="must have the same number of rows"
    ):
        tiny_export.ask(served, name, source=["one", "two"], **more)


def test_warm_up(folder, served):
    """Every signature once, in a request that it answers: more would delay a new version."""
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    asked = []
    for record in tf.data.TFRecordDataset(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        name = request.model_spec.signature_name
        (rows,) = {len(value) for value in inputs.values()}
        asked.append((name, rows))
        outputs = tiny_export.ask(served, name, **inputs)
        assert all(len(value) == rows for value in outputs.values())
    assert sorted(asked) == sorted((name, 1) for name in served.signatures)


def test_the_graph_is_one_that_a_server_can_run(folder):
    model = op_check.read(folder)
    assert op_check.problems(model) == []
    ops = {
        node.op for graph in model.meta_graphs for _, node in op_check.nodes(graph.graph_def)
    }
    assert (
        "SentencepieceTokenizeOp" in ops
        and "While" in ops | {"StatelessWhile"}
        and len(ops) > 50
    )
    content = (folder / "saved_model.pb").read_bytes()
    assert b"_XlaMustCompile" not in content
    # Loaders would warn about gradients that are named and not there.
    assert b"_gradient_op_type" not in content
    fingerprint = tf.saved_model.experimental.read_fingerprint(str(folder))
    assert fingerprint.saved_model_checksum == crc_of(folder)


def crc_of(folder):
    """What a fingerprint made now would say."""
    from tensorflow.core.protobuf import fingerprint_pb2
    from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting

    data = fingerprinting.CreateFingerprintDef(str(folder))
    return fingerprint_pb2.FingerprintDef.FromString(data).saved_model_checksum
