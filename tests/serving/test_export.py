"""The command: what lies in the folder, what is said, what is refused."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

import aevnmt_tf
from aevnmt_tf import export, translator
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import batching_file, export_record, signatures
from aevnmt_tf.serving import saved_model as exporting
from aevnmt_tf.storage import run_directory
from tests import tiny_export, tiny_translator


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tiny_export.shared(tmp_path_factory)


@pytest.fixture(scope="module")
def run(shared):
    return shared.run


def test_what_is_said(shared):
    folder, lines = shared.export_dir, shared.printed.splitlines()
    assert lines[:4] == [
        f"written: {folder}/1",
        "  run, best/step-000000007, dev BLEU 12.50",
        "  takes en: raw text",
        "  gives de: raw text",
    ]
    assert "  serving_default  source -> translation, score" in lines
    assert (
        "  score            source, target -> elbo, log_px, log_py, kl, iw_log_pxy, iw_log_px"
        in lines
    )
    served = [line for line in lines if line.endswith(f"--export_dir '{folder}'")]
    assert len(served) == 1 and "serve" in served[0]
    assert lines[-1].startswith("  docker run ") and f"realpath '{folder}'" in lines[-1]


def test_what_lies_in_the_folder(shared):
    folder = shared.export_dir
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert found == {
        "1/saved_model.pb",
        "1/fingerprint.pb",
        "1/variables/variables.index",
        "1/variables/variables.data-00000-of-00001",
        "1/batching_params.pbtxt",
        "1/MODEL_CARD.md",
        "1/assets.extra/manifest.json",
        "1/assets.extra/tf_serving_warmup_requests",
    }


def test_batching_parameters(shared):
    """Parsed as TensorFlow Serving does, by the message that it declares."""
    message = text_format.Parse(
        (shared.export_dir / "1" / "batching_params.pbtxt").read_text(), batching_parameters()
    )
    assert message.max_batch_size.value == 3 and list(message.allowed_batch_sizes) == [1, 3]
    assert message.batch_timeout_micros.value == 2000
    assert message.max_enqueued_batches.value == 100 and message.num_batch_threads.value >= 1


def batching_parameters():
    """The part of tensorflow.serving.BatchingParameters with which it reads the file."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="b.proto",
        package="b",
        syntax="proto3",
        dependency=["google/protobuf/wrappers.proto"],
    )
    message = file.message_type.add(name="BatchingParameters")
    names = "max_batch_size batch_timeout_micros max_enqueued_batches num_batch_threads".split()
    for number, name in enumerate(names, 1):
        message.field.add(
            name=name,
            number=number,
            type=field.TYPE_MESSAGE,
            type_name=".google.protobuf.Int64Value",
            label=field.LABEL_OPTIONAL,
        )
    message.field.add(
        name="allowed_batch_sizes", number=6, type=field.TYPE_INT64, label=field.LABEL_REPEATED
    )
    from google.protobuf import wrappers_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("b.BatchingParameters"))()


def test_manifest(shared, run):
    found = json.loads((shared.export_dir / "1" / "assets.extra" / "manifest.json").read_text())
    (weights,) = (run / "best").glob("*/model.weights.h5")
    assert found["runs"] == [
        {
            "name": "run",
            "checkpoint": "best/step-000000007",
            "step": 7,
            "crc32": run_directory.checksum(weights),
            "dev": {"bleu": 12.5, "signature": tiny_export.SIGNATURE},
        }
    ]
    assert found["versions"]["tensorflow"] == tf.__version__
    assert found["versions"]["aevnmt_tf"] == aevnmt_tf.__version__
    assert {"keras", "tensorflow-text"} <= set(found["versions"])
    assert found["hparams"] == json.loads((run / "hparams.json").read_text())
    raw = {"lang": "en", "form": "raw", "note": "raw text"}
    assert found["text"]["source"] == {**raw, "example": "I like the cake."}  # of the demo
    assert found["decoding"]["translate"]["search"] == "beam"
    assert found["decoding"]["nbest"]["n_best"] == 3
    assert found["batching"]["allowed_batch_sizes"] == [1, 3]
    assert found["signatures"]["embed"]["outputs"]["loc"].startswith("[B, 4]: ")
    assert set(found["signatures"]) == set(tiny_export.SIGNATURES)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A git repository with a package in it that stands for ours."""
    package = tmp_path / "aevnmt_tf"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(aevnmt_tf, "__file__", str(package / "__init__.py"))
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_the_commit(repository):
    git = ["git", "-C", repository, "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "--no-verify", "-m", "first"], check=True)
    (head,) = (repository / ".git" / "refs" / "heads").iterdir()
    commit = head.read_text().strip()
    assert export_record.git() == {"commit": commit, "changed": False}
    (repository / "aevnmt_tf" / "__init__.py").write_text("import os")
    assert export_record.git() == {"commit": commit, "changed": True}


def test_no_commit_of_a_repository_around_the_package(repository, monkeypatch):
    assert export_record.git() is None  # it has no such file
    monkeypatch.setenv("PATH", "")
    assert export_record.git() is None


def test_scores_of_other_weights_are_not_claimed(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    for name in ("checkpoints", "average"):
        (copy / name).symlink_to(copy / "best")
    assert export_record.describe_run(copy, checkpoint="average")["dev"] is None
    assert export_record.describe_run(copy, checkpoint="last")["dev"]["bleu"] == 12.5
    (copy / run_directory.RESULTS).unlink()  # it is still training
    assert "nrefs:1" in export_record.describe_run(copy)["dev"]["signature"]
    (copy / run_directory.METRICS).unlink()
    assert export_record.describe_run(copy)["dev"] is None


def test_weights_that_change_while_they_are_loaded(run, tmp_path, monkeypatch):
    copy = shutil.copytree(run, tmp_path / "copy")
    load = translator.load

    def slow(*args, **options):
        loaded = load(*args, **options)
        (copy / "best" / "step-000000007").rename(copy / "best" / "step-000000009")
        return loaded

    monkeypatch.setattr(translator, "load", slow)
    with pytest.raises(
        UserError, match="saved a new checkpoint during the export: run the same"
    ):
        exporting.export_runs([copy], tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_text_forms():
    make = tiny_translator.make
    words = export_record.text_forms(make(src="en", tgt="de"))
    assert words["source"]["form"] == "tokenised" and "BPE" not in words["source"]["note"]
    t = make(src="en", tgt="de", subword_option="bpe", text_pipeline="moses")
    t.x_tokenizer.subword_option = "bpe"
    moses = export_record.text_forms(t)
    assert moses["source"]["note"].startswith("Moses tokens, truecased")
    assert "`@@`" in moses["source"]["note"] and "subwords joined" in moses["target"]["note"]


def test_choices():
    t = tiny_export.make(beam_width=4)
    choices = signatures.Choices.of(t)
    assert choices.nbest.n_best == 4 and choices.translate.n_best == 1
    assert choices.sample.z == "sample" and choices.sample.n_best == 5
    wide = signatures.Choices.of(tiny_export.make(beam_width=9, length_penalty_weight=0.3))
    assert wide.nbest.n_best == 5 and wide.nbest.length_penalty_weight == 0.3
    assert signatures.Choices.of(t, n_best=2, search="beam").nbest.n_best == 2
    sampling = {"temperature": 0.5, "top_k": 3}
    drawn = signatures.Choices.of(t, sampling=sampling, mbr_samples=7)
    assert drawn.sample.temperature == drawn.mbr.temperature == 0.5
    assert drawn.mbr.num_samples == 7 and drawn.translate.search == "beam"
    chosen = signatures.Choices.of(t, search="mbr", mbr_samples=7, sampling=sampling)
    for rule in (chosen.translate, chosen.nbest, chosen.mbr):
        assert (rule.search, rule.num_samples, rule.temperature) == ("mbr", 7, 0.5)
        assert rule.references == "aggregate"  # pairs are compared outside of the graph
    for changes, sentence in (
        ({"search": "refine"}, "refine search needs q"),
        ({"n_best": 5}, "n_best 5 is more than beam search finds"),
    ):
        with pytest.raises(UserError, match=sentence):
            signatures.Choices.of(t, **changes)


def test_batch_sizes():
    sizes = {1: (1,), 2: (1, 2), 3: (1, 2, 3), 64: (1, 2, 4, 8, 16, 32, 64)}
    for largest, expected in sizes.items():
        assert batching_file.Batching(largest).allowed_batch_sizes == expected
    for options, sentence in (
        ({"allowed_batch_sizes": (1, 3)}, "must increase up to max_batch_size"),
        ({"allowed_batch_sizes": (2, 1)}, "must increase"),
        ({"num_batch_threads": 0}, "num_batch_threads must be"),
    ):
        with pytest.raises(UserError, match=sentence):
            batching_file.Batching(**options)


def test_a_graph_that_no_server_can_run_is_not_published(tmp_path, monkeypatch):
    t = tiny_translator.make(src="en", tgt="de", beam_width=0)
    spec = (signatures.SOURCE,)

    def python(source):
        return {"translation": tf.py_function(lambda text: text, [source], tf.string)}

    made = {
        "serving_default": signatures.Signature("", spec, {"translation": ("", "")}, python)
    }
    monkeypatch.setattr(signatures, "make", lambda *_: made)
    with pytest.raises(UserError, match="cannot be served: .*needs Python"):
        exporting.export(t, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words, sentence",
    [
        ("--model {tmp} --export_dir {tmp}/d", "{tmp} is not a training run"),
        ("--model {run} --export_dir {tmp}/taken --version 3", "3 exists already"),
        ("--model {run} --export_dir {tmp}/file", "file is a file"),
        ("--model {run} --export_dir {tmp}/d --checkpoint last", "no complete weights"),
        ("--model {run} --export_dir {tmp}/d --epsilon 2", "epsilon must be"),
        ("--model {run} --export_dir {tmp}/d --n_best 4", "n_best 4 is more than beam"),
        ("--model {run} --export_dir {tmp}/d --version 0", "--version: must be 1 or more"),
        ("--model {run} --export_dir {tmp}/d --allowed_batch_sizes 4,2", "must increase"),
        ("--model {run} --export_dir {tmp}/d --allowed_batch_sizes a", "--allowed_batch_sizes"),
        (
            "--model {run} --export_dir {tmp}/d --length_penalty_weight -1",
            "length_penalty_weight",
        ),
        ("--model {run} --export_dir {tmp}/d --beam_with 3", "did you mean --beam_width"),
        ("--model {run}", "--export_dir"),
    ],
)
def test_mistakes_are_one_sentence(run, tmp_path, capsys, words, sentence):
    (tmp_path / "taken" / "3").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    places = {"run": run, "tmp": tmp_path}
    assert export.main([word.format(**places) for word in words.split()]) == 2
    output, messages = capsys.readouterr()
    assert sentence.format(**places) in messages and messages.count("\n") == 1
    assert output == "" and not (tmp_path / "d").exists()


def test_flags_reach_the_model(run, tmp_path, monkeypatch, capsys):
    """Without the slow part."""
    asked = {}

    def fake(loaded, export_dir, **options):
        asked.update(options, loaded=loaded)
        described = export_record.describe(
            loaded,
            {},
            choices=options["choices"],
            batching=options["batching"],
            runs=options["runs"],
        )
        return exporting.Exported(Path(export_dir) / "4", described)

    monkeypatch.setattr(exporting, "export", fake)
    words = (
        f"--model {run} --export_dir {tmp_path} --version 4 --beam_width 6 --n_best 4 "
        "--length_penalty_weight 0.5 --num_samples 7 --samples 8 --temperature 0.7 --top_k 5 "
        "--max_batch_size 12 --src_max_len_infer 99 --batch_timeout_micros 0"
    )
    assert export.main(words.split()) == 0
    choices = asked["choices"]
    assert asked["version"] == 4 and asked["loaded"].hp.src_max_len_infer == 99
    assert (choices.nbest.beam_width, choices.nbest.n_best) == (6, 4)
    assert choices.translate.length_penalty_weight == 0.5 and choices.score_samples == 8
    sample = choices.sample
    assert (sample.n_best, sample.temperature, sample.top_k) == (7, 0.7, 5)
    assert asked["batching"].allowed_batch_sizes == (1, 2, 4, 8, 12)
    assert asked["batching"].batch_timeout_micros == 0
    assert f"written: {tmp_path}/4" in capsys.readouterr().out


def test_samples_have_the_temperature_of_the_run():
    made = signatures.Choices.of(tiny_export.make(beam_width=0, sampling_temperature=0.5))
    assert made.sample.temperature == made.mbr.temperature == 0.5
