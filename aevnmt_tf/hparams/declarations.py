"""Every setting, declared once: files, flags, --help, checks and hparams/README.md follow.

Settings come from the defaults below, then from a JSON file, then from the command line.
"""

import argparse
import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.cli.settings import Setting, add_flag
from aevnmt_tf.hparams import settings_files, tf_nmt_names
from aevnmt_tf.hparams.conflicts import Clash, resolve, supersede
from aevnmt_tf.hparams.settings_files import Layer
from aevnmt_tf.storage import atomic_writes

# The defaults are the authors' values for AEVNMT. One setting: name, type, default, help,
# choices or limits. Wrapped by hand, so that the table can be read.
# fmt: off
_DECLARED: dict[str, tuple[Setting, ...]] = {
    "model": (
        Setting("model_type", str, "aevnmt", "cond: P(y|x); joint: P(x) P(y|x); "
                "aevnmt: P(x|z) P(y|x,z), z inferred; vnmt: P(y|x,z) with a prior p(z|x); vae: "
                "P(x|z), of sentences without translations, whose tgt is src",
                ("cond", "joint", "aevnmt", "vnmt", "vae")),
        Setting("num_units", int, 256, "size of every GRU and of the embeddings", at_least=1),
        Setting("z_dim", int, 256, "size of z", at_least=1),
        Setting("z_inference_from", str, "source_only", "source_only: q(z|x); source_target: "
                "q(z|x,y), and r(z|x) for prediction; vnmt: always source_target, without r",
                ("source_only", "source_target")),
        Setting("r_train_mode", str, None, "divergence that trains r: KLq is KL(q||r), "
                "KLr is KL(r||q), JS is their sum (the authors' name for it), l2 makes r a "
                "point estimate; null with source_target: KLq", ("KLq", "KLr", "JS", "l2")),
        Setting("prior", str, "standard", "standard: N(0, I); mixture: a learned mixture of "
                "Gaussians (not in the paper)", ("standard", "mixture")),
        Setting("prior_components", int, 10, "number of Gaussians in a mixture prior",
                at_least=1),
        Setting("feed_z", bool, False, "feed z to the decoder and the source LM at every step, "
                "not only as their initial state (not in the paper)"),
        Setting("bn_scale", float, 0.0, "fixed scale of the batch-normalised posterior mean "
                "(Zhu et al., 2020; not in the paper); 0: no normalisation", at_least=0),
        Setting("embedding_stddev", float, 0.5, "standard deviation of the initial "
                "embeddings (0.5 in the authors' code)", above=0),
        Setting("dropout", float, 0.3, "dropout rate on the input of every RNN cell",
                at_least=0, below=1),
        Setting("output_dropout", float, 0.0, "dropout rate on the input of the output layers "
                "(not in the paper)", at_least=0, below=1),
        Setting("word_dropout", float, 0.0, "rate at which words of the target prefix and of "
                "the source LM's prefix are dropped", at_least=0, below=1),
        Setting("word_dropout_source", bool, True, "apply word dropout in the source LM as "
                "well"),
        Setting("source_word_dropout", float, 0.0, "rate at which words of the encoder's input "
                "are dropped (not in the paper)", at_least=0, below=1),
        Setting("encoder_type", str, "bi", "bi: num_encoder_layers / 2 in each direction; uni: "
                "forward; gnmt: one in each direction, the others forward on top",
                ("bi", "uni", "gnmt")),
        Setting("num_encoder_layers", int, 2, "number of layers; a bidirectional layer counts "
                "as 2", at_least=1),
        Setting("num_decoder_layers", int, 1, "number of decoder layers", at_least=1),
        Setting("num_lm_layers", int, 1, "number of source LM layers", at_least=1),
        Setting("num_layers", int, None, "default for num_encoder_layers and "
                "num_decoder_layers", at_least=1),
        Setting("attention", str, "bahdanau", "attention score function; empty: no attention",
                ("bahdanau", "normed_bahdanau", "luong", "scaled_luong", "")),
        Setting("attention_architecture", str, "standard", "standard: attention from the top "
                "layer; gnmt, gnmt_v2: from the bottom layer, those above read the last or the "
                "new context", ("standard", "gnmt", "gnmt_v2")),
        Setting("output_attention", bool, True, "standard architecture: the output layer reads "
                "the attention vector; false: the top state"),
        Setting("unit_type", str, "gru", "RNN cell of encoder, decoder and source LM; "
                "inference networks have GRUs", ("gru", "lstm", "layer_norm_lstm")),
        Setting("forget_bias", float, 1.0, "added to the forget gate of an LSTM"),
        Setting("residual", bool, False, "residual connections between RNN layers"),
        Setting("pass_hidden_state", bool, False, "start the decoder from the encoder's last "
                "states; false: from z or zeros"),
        Setting("language_model", bool, False, "P(y) alone: no encoder, no attention, the "
                "target's vocabulary for both sides"),
        Setting("init_op", str, None, "initial values of all weights but biases and gains; "
                "null: as in the authors' runs", ("uniform", "glorot_uniform",
                "glorot_normal")),
        Setting("init_weight", float, 0.1, "init_op uniform: from minus this to this",
                above=0),
        Setting("decoder_style", str, "paper", "paper: attention from the old state, output "
                "from state, word and context; tf_nmt: input feeding, and TF-NMT's other forms",
                ("paper", "tf_nmt")),
        Setting("gru_reset", str, "before", "apply the reset gate before or after the "
                "recurrent product", ("before", "after")),
        Setting("share_vocab", bool, False, "one vocabulary for both languages"),
        Setting("tie_embeddings", bool, False, "use the embeddings as the matrices of the "
                "output layers (not in the paper)"),
    ),
    "objective": (
        Setting("objective", str, "elbo", "elbo: the evidence lower bound; iwae: the "
                "importance-weighted bound with num_train_samples draws (not in the paper)",
                ("elbo", "iwae")),
        Setting("num_train_samples", int, 1, "draws of z per sentence pair in training",
                at_least=1),
        Setting("KL_annealing_steps", int, 0, "updates over which the weight of the KL terms "
                "increases from 0 to 1; 0: no annealing", at_least=0),
        Setting("KL_annealing_cycles", int, 1, "number of annealing cycles, each of "
                "2 x KL_annealing_steps updates", at_least=1),
        Setting("divergence_trains_q", bool, True, "whether D(r, q) trains q as well as r; "
                "false keeps information in z (not in the paper)"),
        Setting("label_smoothing", float, 0.0, "probability mass of each target word that "
                "is spread evenly over the vocabulary (not in the paper)",
                at_least=0, below=1),
        Setting("free_bits", float, 0.0, "nats of KL that are free (not in the paper)",
                at_least=0),
        Setting("free_bits_for", str, "z", "z, dimension: free bits per sentence, for all of "
                "z or per dimension; batch, batch_dimension: the same for the mean KL of a "
                "batch on each device", ("z", "dimension", "batch", "batch_dimension")),
        Setting("mdr_rate", float, 0.0, "minimum desired rate: nats of KL enforced by a "
                "Lagrange multiplier (not in the paper); 0: off", at_least=0),
        Setting("mdr_step", float, 0.01, "step size of the multiplier, per nat that the KL of "
                "a batch is below mdr_rate", above=0),
        Setting("bow_source_weight", float, 0.0, "weight of a loss that predicts the source "
                "words from z as a bag of words (not in the paper); 0: off", at_least=0),
        Setting("bow_target_weight", float, 0.0, "the same for the target words; 0: off",
                at_least=0),
        Setting("consistency_weight", float, 0.0, "weight of the symmetric KL between the "
                "predictions of two passes with different noise (R-Drop; not in the paper); an "
                "update takes twice as long; 0: one pass", at_least=0),
    ),
    "optimisation": (
        Setting("optimizer", str, "adam", "optimizer", ("adam", "sgd")),
        Setting("learning_rate", float, 0.0003, "initial learning rate", above=0),
        Setting("ema_decay", float, 0.0, "decay of an exponential moving average of the "
                "weights, such as 0.999; the average is evaluated and kept as best (not in the "
                "paper); 0: no average", at_least=0, below=1),
        Setting("max_gradient_norm", float, 1.0, "clip gradients to this global norm",
                above=0),
        Setting("batch_size", int, 64, "sentence pairs per batch, over all devices",
                at_least=1),
        Setting("gradient_accumulation_steps", int, 1, "batches per update",
                at_least=1),
        Setting("num_train_steps", int, 140000, "number of updates before convergence checks "
                "start", at_least=1),
        Setting("check_convergence_every", int, 500, "after num_train_steps: updates between "
                "convergence checks on dev BLEU; 0: stop at num_train_steps", at_least=0),
        Setting("patience", int, 20, "stop after this many checks without improvement",
                at_least=1),
        Setting("max_steps", int, None, "stop after this many updates", at_least=1),
        Setting("max_minutes", float, None, "stop after this many minutes", above=0),
        Setting("max_bad_steps", int, 10, "give up after this many consecutive updates with a "
                "non-finite gradient", at_least=1),
        Setting("warmup_steps", int, 0, "updates over which the learning rate increases",
                at_least=0),
        Setting("warmup_scheme", str, "t2t", "exponentially, from 1/100 of the learning rate",
                ("t2t",)),
        Setting("decay_scheme", str, "", "luong5, luong10: after 1/2 of the updates, halve "
                "the learning rate 5 or 10 times; luong234: after 2/3, 4 times; linear: "
                "decrease it to 0",
                ("", "luong5", "luong10", "luong234", "linear")),
        Setting("random_seed", int, 1, "seed of initial weights, noise and the order of the "
                "data", at_least=0, below=2**31),
    ),
    "machine": (
        Setting("distribute", str, "auto", "auto: all GPUs of this machine, or the workers of "
                "TF_CONFIG if it names two or more",
                ("auto", "none", "mirrored", "multi_worker")),
        Setting("precision", str, "float32", "precision of the large matrix products",
                ("float32", "mixed_bfloat16")),
        Setting("jit_compile", str, "auto", "compile with XLA; auto: on a GPU only",
                ("auto", "true", "false")),
    ),
    "data": (
        Setting("src", str, None, "source language, such as en; files are PREFIX.LANG"),
        Setting("tgt", str, None, "target language, such as de"),
        Setting("train_prefix", str, None, "prefix of the training files, or several; null: "
                "the demo corpus", many="either"),
        Setting("train_ratios", float, None, "mixing weights, one per train_prefix; null: "
                "concatenate the corpora", above=0, many=True),
        Setting("dev_prefix", str, None, "prefix of the development files, or several",
                many="either"),
        Setting("test_prefix", str, None, "prefix of the test files, or several",
                many="either"),
        Setting("synthetic_prefix", str, None, "back-translated pairs: PREFIX.TGT and "
                "PREFIX.translation.SRC"),
        Setting("mono_real_ratio", int, 1, "synthetic or monolingual batches per gold batch",
                at_least=1),
        Setting("mono_prefix", str, None, "source sentences without translations, PREFIX.SRC, "
                "to train P(x|z) and q(z|x) on as well; for joint, and for aevnmt with "
                "source_only"),
        Setting("embed_prefix", str, None, "prefix of files with a vector for each word of the "
                "vocabulary, which stay fixed; null: train the embeddings"),
        Setting("vocab_prefix", str, None, "prefix of vocabulary files or SentencePiece "
                "models; null: learn them from the training files"),
        Setting("out_dir", str, None, "folder of the run"),
        Setting("note", str, None, "a description of the file or the run"),
        Setting("max_train", int, 0, "train on the first N pairs only; 0: all", at_least=0),
        Setting("num_buckets", int, 10, "maximum number of batch shapes", at_least=1),
        Setting("subword_sampling", float, 0.0, "sample segmentations of the training text "
                "(Kudo, 2018) with probability P^alpha; smaller values vary more; 0: the best "
                "segmentation only", at_least=0),
        Setting("subword_samples", int, 8, "with subword_sampling: segmentations per "
                "sentence, stored on disk and used by epochs in turn", at_least=1),
        Setting("src_max_len", int, 50, "drop longer sources from training (subwords)",
                at_least=1),
        Setting("tgt_max_len", int, 50, "drop longer targets from training (subwords)",
                at_least=1),
        Setting("src_max_len_infer", int, 512, "truncate longer sources when translating "
                "(subwords)", at_least=1),
        Setting("tgt_max_len_infer", int, None, "maximum length of a translation (subwords); "
                "null: 2 x the source length + 10", at_least=1),
        Setting("demo_pairs", int, 20000, "training pairs of the demo corpus, at most 20,000",
                at_least=10),
        Setting("sos", str, "<s>", "start-of-sentence symbol in vocabulary files"),
        Setting("eos", str, "</s>", "end-of-sentence symbol in vocabulary files"),
    ),
    "text": (
        Setting("subword_option", str, "spm", "spm: SentencePiece on raw text; bpe: text in "
                "BPE (@@); empty: words", ("", "bpe", "spm")),
        Setting("vocab_size", int, 8000, "per language: SentencePiece pieces, BPE merges, or "
                "words", at_least=1),
        Setting("text_pipeline", str, "sentencepiece", "how raw text is prepared; moses: "
                "tokenise, truecase, BPE", ("sentencepiece", "moses")),
        Setting("synthetic_tag", str, None, "symbol in front of every synthetic source, such "
                "as <bt>; null: none"),
    ),
    "decoding": (
        Setting("infer_batch_size", int, 64, "sentences per batch when translating",
                at_least=1),
        Setting("beam_width", int, 10, "beam width; 0: greedy search, or sampling if "
                "sampling_temperature is set", at_least=0),
        Setting("length_penalty_weight", float, 1.0, "w in score = log P(y|x, z) / ((5 + "
                "length) / 6)^w", at_least=0),
        Setting("infer_mode", str, None, "TF-NMT's name: greedy sets beam_width and "
                "sampling_temperature to 0, beam_search the latter, sample the former",
                ("greedy", "sample", "beam_search")),
        Setting("coverage_penalty_weight", float, 0.0, "beam search: w in w sum_i log(min(1, "
                "sum_j a_ij)), added to the score (GNMT)", at_least=0),
        Setting("sampling_temperature", float, 0.0, "above 0: sample words at this temperature",
                at_least=0),
        Setting("num_translations_per_input", int, 1, "translations per sentence",
                at_least=1),
    ),
    "reporting": (
        Setting("steps_per_stats", int, 100, "updates between reports", at_least=1),
        Setting("steps_per_external_eval", int, 1000, "updates between dev evaluations",
                at_least=1),
        Setting("steps_per_checkpoint", int, None, "updates between checkpoints; null: 10 x "
                "steps_per_stats", at_least=1),
        Setting("metrics", str, ("bleu",), "dev scores to report; BLEU selects the best "
                "weights; bleu_other_z: BLEU with the z of another sentence",
                ("bleu", "chrf", "ter", "rouge", "accuracy", "word_accuracy", "bleu_other_z"),
                many=True),
        Setting("num_keep_ckpts", int, 5, "number of most recent checkpoints to keep",
                at_least=1),
        Setting("avg_ckpts", int, 0, "checkpoint averaging: average the last N checkpoints; "
                "true: num_keep_ckpts",
                at_least=0, also=(True, False)),
        Setting("iw_samples", int, 10, "samples for the importance-weighted bound on dev",
                at_least=1),
        Setting("license", str, None, "license of the trained model, for its MODEL_CARD.md"),
    ),
}
# fmt: on
GROUPS = {
    group: tuple(replace(setting, group=group) for setting in settings)
    for group, settings in _DECLARED.items()
}
SETTINGS = {setting.name: setting for settings in GROUPS.values() for setting in settings}
_DEFAULTS = {name: setting.default for name, setting in SETTINGS.items()}


class Hparams:
    """The settings of a run: frozen, read as attributes, equal and hashed by value."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]):
        object.__setattr__(self, "_values", MappingProxyType(dict(values)))

    def __getattr__(self, name: str) -> Any:
        if name not in SETTINGS:
            hint = did_you_mean(name, SETTINGS)
            raise AttributeError(f"there is no setting called {name}{hint}")
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"settings are frozen; replace({name}=...) makes new ones")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("settings are frozen")

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *SETTINGS]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hparams) and dict(self._values) == dict(other._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        items = [f"{k}={v!r}" for k, v in self._values.items() if v != _DEFAULTS[k]]
        return f"Hparams({', '.join(items)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Hparams, (dict(self._values),)

    def to_dict(self) -> dict[str, Any]:
        """Return every setting as JSON holds it, lists as lists."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self._values.items()}

    def replace(self, **overrides: Any) -> "Hparams":
        """Return these settings with some changed, checked again as `load` does."""
        return _merge([Layer(self.to_dict()), Layer(overrides)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `load` reads back to equal settings."""
        atomic_writes.write_json(path, self.to_dict())


def load(path: str | os.PathLike[str] | None = None, **overrides: Any) -> Hparams:
    """Return the settings of a file, the overrides on top, the defaults below."""
    layers = [] if path is None else settings_files.read(path)
    return _merge([*layers, Layer(overrides)])


def add_flags(
    parser: argparse.ArgumentParser, groups: Iterable[str] | None = None, *, file: bool = True
) -> None:
    """Add --hparams (unless `file` is false) and one flag for each setting of the groups."""
    if file:
        parser.add_argument(
            "--hparams",
            metavar="FILE",
            help="a settings file, or the name of a shipped one, such as demo",
        )
    wanted = GROUPS if groups is None else {group: GROUPS[group] for group in groups}
    names = []
    for group, settings in wanted.items():
        section = parser.add_argument_group(f"settings: {group}")
        for setting in settings:
            check = functools.partial(_check_flag, setting.name)
            add_flag(section, setting, check=check)
            names.append(setting.name)
    for old, (new, _) in tf_nmt_names.ALIASES.items():
        if new in names:
            parser.add_argument(f"--{old}", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
            names.append(old)
    parser.set_defaults(settings_flags=tuple(names))


def overrides(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were given as flags."""
    return {name: getattr(args, name) for name in args.settings_flags if name in vars(args)}


def from_args(args: argparse.Namespace, *, below: Mapping[str, Any] | None = None) -> Hparams:
    """Return the settings of a command line: its --hparams file, its flags on top.

    `below` are values to use in place of defaults.
    """
    path = getattr(args, "hparams", None)
    layers = [] if path is None else settings_files.read(path)
    return _merge([Layer(dict(below or {})), *layers, Layer(overrides(args), _flag)])


def _merge(layers: Iterable[Layer]) -> Hparams:
    given: dict[str, Any] = {}
    places: dict[str, str] = {}
    for layer in layers:
        ours = _checked(layer)
        supersede(given, later=ours)
        for name, value in ours.items():
            given[name], places[name] = value, layer.where(name)
    given.pop("num_layers", None)  # It has set the two depths.
    try:
        return Hparams(resolve({**_DEFAULTS, **given}, given=given))
    except Clash as error:
        place = next((places[name] for name in error.names if name in places), "")
        raise UserError(f"{place}{error}") from None


def _checked(layer: Layer) -> dict[str, Any]:
    ours = tf_nmt_names.translate(layer.values, where=layer.where, defaults=_DEFAULTS)
    for name, value in ours.items():
        if name not in SETTINGS:
            known = [*SETTINGS, "base", *tf_nmt_names.ALIASES]
            hint = did_you_mean(name, known) or "; --help lists them all."
            raise UserError(f"{layer.where(name)}there is no setting called {name}{hint}")
        try:
            ours[name] = SETTINGS[name].check(value)
        except ValueError as error:
            raise UserError(f"{layer.where(name)}{error}") from None
    return ours


def _check_flag(name: str, value: Any) -> Any:
    return _checked(Layer({name: value}, _flag))[name]


def _flag(name: str) -> str:
    return f"--{name}: "


if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[2] / "hparams"
    print(settings_files.readme(GROUPS, folder=folder), end="")
