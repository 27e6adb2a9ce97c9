"""The command: whatever comes in, a line goes out for each line, or a sentence to stderr."""

import gzip
import io
import json
import os
import shutil
import sys

import pytest
from matplotlib import image as images

import aevnmt_tf
from aevnmt_tf import model as models
from aevnmt_tf import translate, translator
from aevnmt_tf.storage import run_directory, snapshots
from tests import tiny
from tests.tiny_translator import LINES, save_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that searches greedily, which is traced quickly."""
    return save_run(tmp_path_factory.mktemp("runs") / "run", beam_width=0)


@pytest.fixture(scope="module")
def loaded(run):
    return aevnmt_tf.load(run)


@pytest.fixture
def command(run, loaded, monkeypatch, capsysbinary):
    """Run the command in this process: code, output, messages."""
    kept = translator.load

    def load(path, *, checkpoint=None, **overrides):
        # The same weights without tracing the graph again.
        if str(path) == str(run) and checkpoint is None and not overrides:
            return loaded
        return kept(path, checkpoint=checkpoint, **overrides)

    monkeypatch.setattr(translator, "load", load)

    def call(*words, stdin=b"", model=run):
        stream = io.TextIOWrapper(io.BytesIO(stdin))
        monkeypatch.setattr(sys, "stdin", stream)
        code = translate.main(["--model", str(model), *map(str, words)])
        output, messages = capsysbinary.readouterr()
        return code, output, messages.decode()

    return call


def lines_of(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture(scope="module")
def expected(loaded):
    return loaded.translate(LINES)


def test_stdin_to_stdout(command, expected):
    code, output, messages = command(stdin=lines_of(*LINES))
    assert code == 0 and output == lines_of(*expected)
    assert f"{len(LINES)} lines in" in messages


def test_at_a_terminal_it_says_that_it_reads_lines(command, expected, monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr(io, "TextIOWrapper", Terminal)
    code, output, messages = command(stdin=lines_of(*LINES))
    assert code == 0 and output == lines_of(*expected)
    assert "one per line" in messages and "lines in" not in messages


@pytest.mark.parametrize("end", ["", ".gz"])
def test_files(command, expected, tmp_path, end):
    source, target = tmp_path / f"in{end}", tmp_path / f"out{end}"
    opener = gzip.open if end else open
    with opener(source, "wb") as file:
        file.write(lines_of(*LINES))
    code, output, _ = command("--input", source, "--output", target)
    assert code == 0 and output == b""
    with opener(target, "rb") as file:
        assert file.read() == lines_of(*expected)


def test_lines_that_are_asked_for(command, expected):
    source = lines_of(*LINES)
    wanted = [0, len(LINES) - 1]
    code, output, _ = command("--lines", ",".join(map(str, wanted)), stdin=source)
    assert code == 0 and output == lines_of(*(expected[number] for number in wanted))
    code, output, messages = command("--lines", f"0,{len(LINES)}", stdin=source)
    assert code == 2 and output == lines_of(expected[0])
    assert f"--lines: stdin has no line {len(LINES)} (from 0)" in messages


def test_line_ends(command, loaded):
    r"""Only \n ends a line, or \r\n; the last line may do without; a BOM is no text."""
    stdin = "\ufeffa b\r\nc\u2028d\x0be\x85f\n\n\rh".encode()
    code, output, _ = command(stdin=stdin)
    assert code == 0
    assert output == lines_of(*loaded.translate(["a b", "c\u2028d\x0be\x85f", "", "\rh"]))
    assert command(stdin=b"")[:2] == (0, b"")
    assert command(stdin=b"\n")[:2] == (0, b"\n")


def test_odd_text(command):
    odd = [
        "\0",
        "a\0b",
        " ",
        "\t",
        "日本語",
        "\U0001f600",
        "a" * 100_000,
        "<s> </s> <unk>",
        "b",
    ]
    code, output, _ = command(stdin=lines_of(*odd))
    assert code == 0 and output.count(b"\n") == len(odd)
    assert output.splitlines()[-1] == command(stdin=b"b\n")[1].rstrip(b"\n")


def test_bad_utf8_names_the_line_after_the_good_ones(command, loaded):
    stdin = b"a b\nc\n\xff d\nb\n"
    code, output, messages = command(stdin=stdin)
    assert code == 2 and "stdin, line 3: byte 0xff is not valid UTF-8" in messages
    assert output == lines_of(*loaded.translate(["a b", "c"]))
    code, output, _ = command("--errors", "replace", stdin=stdin)
    assert code == 0
    assert output == lines_of(*loaded.translate(["a b", "c", "\ufffd d", "b"]))


def test_long_lines_are_cut_and_named(command):
    stdin = lines_of("a b", " ".join("abcdefgh" * 6250), "c")  # 100,000 characters
    code, output, messages = command("--src_max_len_infer", 5, stdin=stdin)
    assert code == 0 and output.count(b"\n") == 3
    assert "line 2 is cut to its first 5 subwords" in messages
    assert "line 1" not in messages and "line 3" not in messages


def test_n_best(command, loaded):
    flags = ("--search", "sample", "--n_best", 3, "--z", "sample", "--seed", 4)
    code, output, _ = command(*flags, stdin=lines_of(*LINES))
    rows = [line.split("\t") for line in output.decode().split("\n")[:-1]]
    found = loaded.n_best(LINES, search="sample", n_best=3, z="sample", seed=4)
    assert code == 0 and rows == [[t.text for t in line] for line in found]


def test_jsonl(command, loaded):
    flags = ("--format", "jsonl", "--search", "beam", "--beam_width", 3, "--n_best", 2)
    code, output, _ = command(*flags, stdin=lines_of("a b", "", 'c "d'))
    rows = [json.loads(line) for line in output.splitlines()]
    assert code == 0 and [row["line"] for row in rows] == [1, 2, 3]
    assert [row["source"] for row in rows] == ["a b", "", 'c "d']
    first = rows[0]
    assert first["source_pieces"] == ["a", "b", "</s>"] and len(first["z"]) == 4
    assert len(first["attention"]) == len(first["target_pieces"])
    assert all(len(weights) == 3 for weights in first["attention"])
    best = {key: first[key] for key in ("translation", "score", "log_prob")}
    assert first["n_best"][0] == best and first["score"] >= first["n_best"][1]["score"]
    assert rows[1]["translation"] == "" and rows[1]["score"] == 0


def test_flags_beat_the_run(command, loaded):
    _, output, _ = command("--tgt_max_len_infer", 2, stdin=lines_of(*LINES))
    assert output == lines_of(*loaded.translate(LINES, max_length=2))
    _, output, _ = command("--force_length", 4, stdin=lines_of("a b"))
    assert len(output.split()) in (3, 4)


@pytest.mark.slow
def test_mbr(command, loaded):
    flags = ("--search", "mbr", "--num_samples", 4, "--utility", "bleu", "--seed", 2)
    code, output, _ = command(*flags, stdin=lines_of(*LINES))
    options = {"search": "mbr", "num_samples": 4, "utility": "bleu", "seed": 2}
    assert code == 0 and output == lines_of(*loaded.translate(LINES, **options))


@pytest.mark.slow
def test_ensemble(command, run, expected):
    code, output, _ = command("--model", run, "--format", "jsonl", stdin=lines_of(*LINES))
    rows = [json.loads(line) for line in output.splitlines()]
    assert code == 0 and [row["translation"] for row in rows] == expected
    assert [len(z) for z in rows[0]["z"]] == [4, 4], "one for each model"


def test_attention_of_a_line(command, expected, tmp_path):
    picture = tmp_path / "alignment.png"
    code, output, _ = command("--attention", picture, stdin=lines_of(LINES[0]))
    assert code == 0 and output == lines_of(expected[0])
    height, width, _ = images.imread(picture).shape
    assert height > 100 and width > 100
    picture.unlink()
    code, output, messages = command("--attention", picture, stdin=b"a\nb\n")
    assert code == 2 and output == b"" and "give a folder" in messages
    assert not picture.exists()
    missing = tmp_path / "no" / "alignment.png"
    code, _, messages = command("--attention", missing, stdin=b"a\n")
    assert code == 2 and f"cannot write {missing}: No such file" in messages


def test_attention_of_all_lines(command, tmp_path):
    """Whatever is in a line, and no word about fonts on stderr; an empty line has none."""
    folder = tmp_path / "new" / "folder"
    code, _, messages = command("--attention", folder, stdin=lines_of("a $", "", "日\0_^"))
    assert code == 0 and messages.count("\n") == messages.count("aevnmt translate: ") == 2
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["000001.png", "000003.png"]
    assert all(images.imread(folder / name).size for name in names)


def test_an_empty_line_is_one_empty_translation(command):
    code, output, _ = command("--search", "sample", "--n_best", 3, stdin=b"\n \n")
    assert code == 0 and output == b"\n\n"
    code, output, _ = command("--format", "jsonl", stdin=b"\n")
    row = json.loads(output)
    assert (row["score"], row["log_prob"], row["target_pieces"]) == (0, 0, [])


def test_line_breaks_inside_a_translation(command, loaded, monkeypatch):
    broken = translator.TranslatedLine([translator.Translation("a\nb\r\tc", 0.0, 0.0)])
    monkeypatch.setattr(loaded, "stream", lambda lines, **_: (broken for _ in lines))
    assert command(stdin=b"x\ny\n")[1] == b"a b  c\na b  c\n"


def test_an_interruption_leaves_whole_lines(command, loaded, tmp_path, monkeypatch):
    def stream(lines, **_):
        for number, line in enumerate(lines):
            if number == 3:
                raise KeyboardInterrupt
            yield translator.TranslatedLine([translator.Translation(line, 0.0, 0.0)])

    monkeypatch.setattr(loaded, "stream", stream)
    target = tmp_path / "out"
    code, _, messages = command("--output", target, stdin=lines_of(*"abcdef"))
    assert code == 130 and target.read_bytes() == b"a\nb\nc\n"
    assert "Traceback" not in messages


def test_a_full_disk(command):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    code, _, messages = command("--output", "/dev/full", stdin=b"a\n")
    assert code == 2 and "cannot write /dev/full: No space left on device" in messages


def broken_gzip(path):
    path.write_bytes(gzip.compress(b"a b c\n" * 1000)[:40])
    return path


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--input", "{tmp}/none"], "cannot read {tmp}/none: No such file"),
        (["--input", "{tmp}"], "cannot read {tmp}: Is a directory"),
        (["--input", "{tmp}/text.gz"], "cannot read {tmp}/text.gz: Not a gzipped file"),
        (["--input", "{tmp}/text", "--output", "{tmp}/no/out"], "cannot write {tmp}/no/out"),
        (["--input", "{tmp}/text", "--output", "{tmp}/text"], "is also an input"),
        (["--search", "viterbi"], "--search: search must be"),
        (["--beam_width", "-1"], "beam_width"),
        (["--search", "mbr", "--beam_width", "5"], "beam_width is for beam or refine search"),
        (["--n_best", "0"], "--n_best"),
        (["--n_best", "2"], "n_best 2 is more than greedy search finds"),
        (["--num_z", "2"], "num_z above 1 needs z sample"),
        (["--search", "refine"], "refine search needs q(z|x, y)"),
        (["--search", "mbr", "--num_samples", "0"], "--num_samples"),
        (["--shard", "3/2"], "--shard: must be I/N"),
        (["--shard", "1/2", "--engine", "ray"], "--engine ray makes shards itself"),
        (["--engine", "ray"], "--engine ray needs --num_workers"),
        (["--num_workers", "2"], "--num_workers is for --engine ray"),
        (["--shard", "1/2", "--attention", "x"], "--attention is not for --shard"),
        (["--shard", "1/2"], "--shard writes a file: give --output"),
        (["--refine_steps", "-1"], "--refine_steps"),
        (["--utility", "bleu"], "utility is for mbr search, and this is greedy search"),
        (["--seed", "-1"], "--seed: must be"),
        (["--top_p", "0"], "--top_p: top_p must be"),
        (["--model", "{tmp}"], "{tmp} is not a training run"),
        (["--output", "{tmp}"], "cannot write {tmp}: Is a directory"),
        (["--attention", "{tmp}/text"], "cannot write {tmp}/text: file exists"),
        (["--checkpoint", "average"], "without avg_ckpts"),
        (["--n_bets", "2"], "did you mean --n_best"),
        (["--inference_list=0,3"], "unknown flag --inference_list: use aevnmt translate"),
        (["--num_gpus", "2"], "unknown flag --num_gpus: it has no meaning here"),
        (["--lines", "0,x"], "--lines"),
    ],
)
def test_mistakes_are_one_sentence(command, tmp_path, words, sentence):
    (tmp_path / "text").write_bytes(b"a\n")
    (tmp_path / "text.gz").write_bytes(b"a\n")
    words = [word.format(tmp=tmp_path) for word in words]
    code, output, messages = command(*words, stdin=b"a\n")
    assert code == 2 and output == b""
    assert sentence.format(tmp=tmp_path) in messages and messages.count("\n") == 1
    assert (tmp_path / "text").read_bytes() == b"a\n"


def test_a_gzip_file_that_ends_early(command, tmp_path):
    code, output, messages = command("--input", broken_gzip(tmp_path / "text.gz"))
    assert code == 2 and "cannot read" in messages and "Traceback" not in messages
    assert not output or output.endswith(b"\n")


def test_no_run(command, tmp_path):
    target = tmp_path / "out"
    target.write_text("precious\n")
    code, _, messages = command("--output", target, model=tmp_path, stdin=b"a\n")
    assert code == 2 and f"{tmp_path} is not a training run" in messages
    assert target.read_text() == "precious\n"


def test_damaged_runs(command, run, tmp_path):
    """A folder that was a run: the sentence names the file."""

    def damaged(name):
        folder = tmp_path / name.replace("/", "_")
        shutil.copytree(run, folder)
        path = next(folder.glob(name))
        shutil.rmtree(path) if path.is_dir() else path.write_bytes(b"{ nonsense")
        code, _, messages = command(model=folder, stdin=b"a\n")
        assert code == 2 and messages.count("\n") == 1, messages
        return messages

    assert "hparams.json" in damaged("hparams.json")
    assert "text" in damaged("text")
    assert "vocab.en" in damaged("text/vocab.en")
    assert "no complete weights in best/ or checkpoints/" in without_weights(
        command, run, tmp_path
    )


def without_weights(command, run, tmp_path):
    folder = tmp_path / "weightless"
    shutil.copytree(run, folder)
    for path in folder.rglob("model.weights.h5"):
        path.write_bytes(b"cut")
    return command(model=folder, stdin=b"a\n")[2]


# Models of the Moses pipeline.

RAW = ["The house isn't red, Mr. Smith.", "", "It's the house (again).", "日本"]


@pytest.fixture(scope="module")
def moses_run(tmp_path_factory):
    """A run whose vocabulary is made of subwords of tokenised, truecased text."""
    from aevnmt_tf.data import text_folder
    from aevnmt_tf.text import VocabularyTokenizer, moses

    hp = tiny.settings(
        "source_only",
        src="en",
        tgt="de",
        beam_width=0,
        text_pipeline="moses",
        subword_option="bpe",
    )
    pipelines, tokenizers = {}, {}
    for lang in ("en", "de"):
        tokenise = moses.learn_truecaser(lang, []).tokenise
        pipeline = moses.learn_truecaser(lang, map(tokenise, RAW * 3))
        words = moses.count_words(pipeline.truecase(tokenise(line)) for line in RAW * 3)
        pipelines[lang] = pipeline.with_codes(moses.learn_codes(words, num_merges=20))
        seen = {w for line in RAW[:3] for w in pipelines[lang].forward(line).split()}
        special = ["<unk>", "<s>", "</s>"]
        tokenizers[lang] = VocabularyTokenizer([*special, *sorted(seen)], "bpe")
    folder = tmp_path_factory.mktemp("moses") / "run"
    folder.mkdir()
    hp.save(folder / "hparams.json")
    text_folder.save(hp, folder / "text", tokenizers=tokenizers, pipelines=pipelines)
    model = models.build(hp, *(tokenizers[lang].vocab_size for lang in ("en", "de")))
    tiny.randomise(model, seed=1, scale=0.8)
    snapshots.publish(
        folder / "best", step=1, write=lambda f: run_directory.save_weights(model, f)
    )
    return folder


@pytest.mark.slow
def test_moses_models_take_raw_text_and_give_it(command, moses_run):
    """As if somebody had tokenised before and undone it after, with the run's own files."""
    from aevnmt_tf.text import moses

    code, output, _ = command(model=moses_run, stdin=lines_of(*RAW))
    inside = aevnmt_tf.load(moses_run)
    plain = translator.Translator(inside.graph)
    before, after = (moses.load(moses_run / "text", lang) for lang in ("en", "de"))
    assert before.forward(RAW[0]) != RAW[0]
    tokens = plain.translate([before.forward(line) for line in RAW])
    assert code == 0 and output == lines_of(*(after.inverse(line) for line in tokens))
    assert any(after.inverse(line) != line for line in tokens)


def test_a_moses_model_without_its_pipeline(command, moses_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(moses_run, folder)
    (folder / "text" / "moses.de.truecaser").unlink()
    code, _, messages = command(model=folder, stdin=b"a\n")
    assert code == 2 and "text_pipeline moses needs moses.de.truecaser" in messages


def test_a_temperature_samples_from_a_run_with_a_beam(command, tmp_path):
    run = save_run(tmp_path / "run", beam_width=3)
    flags = ("--search", "sample", "--sampling_temperature", 0.5, "--seed", 4)
    code, output, messages = command(*flags, stdin="\n".join(LINES).encode(), model=run)
    assert code == 0, messages
    sampler = aevnmt_tf.load(run, sampling_temperature=0.5)
    expected = sampler.translate(LINES, search="sample", seed=4)
    assert output.decode() == "".join(f"{line}\n" for line in expected)
    code, _, messages = command("--search", "beam", "--sampling_temperature", 0.5, model=run)
    assert code == 2 and "beam search has no sampling_temperature" in messages


def test_unknown_words_are_counted_and_many_of_them_explained(command, moses_run):
    _, _, messages = command(stdin=b"a b c d e f g h a b c d zz\n")
    assert "1 of 13 source words are unknown to the model\n" in messages
    _, _, messages = command(stdin=b"The house isn't red.\n")
    assert "unknown to the model, which takes words separated by spaces" in messages
    assert "unknown" not in command(stdin=b"a b\n")[2]
    raw = command(model=moses_run, stdin=lines_of(RAW[0]))[2]
    assert "unknown" not in raw, "its own pipeline makes tokens of raw text"


def test_a_point_is_not_an_article(command, tmp_path):
    run = save_run(tmp_path / "run", system="l2", beam_width=0)
    code, _, messages = command("--z", "sample", model=run, stdin=b"a\n")
    assert code == 2 and "predicts z as a point" in messages and "a aevnmt" not in messages
