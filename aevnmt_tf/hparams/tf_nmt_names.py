"""TF-NMT's own settings files load unchanged: old names, keys without a meaning, refusals."""

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from aevnmt_tf.cli.errors import UserError, did_you_mean

# Old name -> (our name, old value -> our value). TF-NMT's plain model is conditional.
ALIASES: dict[str, tuple[str, dict[Any, str]]] = {
    "joint_model_type": (
        "model_type",
        {"none": "cond", "baseline": "cond", "dsimple": "joint", "dvae": "aevnmt"},
    ),
}

# Values of both names that exist in the authors' code only.
CONTINUOUS = ("cbaseline", "csimple", "cvae")
_WHY_NOT_CONTINUOUS = "the continuous variants are not part of the published paper"

# Key -> why it has no meaning here. One warning line each.
IGNORED: dict[str, str] = {
    "time_major": "tensors are batch-major",
    "colocate_gradients_with_ops": "TensorFlow 2 places gradients itself",
    "forget_bias": "a GRU has no forget gate",
    "num_gpus": "distribute says which devices train",
    "num_inter_threads": "TensorFlow chooses",
    "num_intra_threads": "TensorFlow chooses",
    "log_device_placement": "--verbose shows TensorFlow's own messages",
    "scope": "there are no variable scopes",
    "residual": "there are no residual connections",
    "Qx_encoder": "it belongs to the continuous variants",
    "Qx_decoder": "it belongs to the continuous variants",
    "Qx_covariance": "it belongs to the continuous variants",
    "num_embeddings_partitions": "embeddings are not partitioned",
    "jobid": "a run is one job",
    "num_workers": "distribute says which devices train",
    "override_loaded_hparams": "flags always win over files",
    "init_weight": "weights start as in the authors' runs",
    "init_op": "weights start as in the authors' runs",
    "output_attention": "decoder_style decides",
    "check_special_token": "vocabularies are always checked",
    "infer_mode": "beam_width and sampling_temperature decide",
    "num_sampled_softmax": "the softmax is always full",
    "use_char_encode": "text is in subwords or words",
    "language_model": "model_type decides",
    "coverage_penalty_weight": "there is no coverage penalty",
    # What TF-NMT itself adds to the file in its out_dir.
    "best_bleu": "it is the state of an old run",
    "best_bleu_dir": "it is the state of an old run",
    "avg_best_bleu": "it is the state of an old run",
    "avg_best_bleu_dir": "it is the state of an old run",
    "epoch_step": "it is the state of an old run",
    "num_encoder_residual_layers": "there are no residual connections",
    "num_decoder_residual_layers": "there are no residual connections",
    "src_vocab_file": "vocab_prefix names the files",
    "tgt_vocab_file": "vocab_prefix names the files",
    "src_vocab_size": "the vocabulary files tell",
    "tgt_vocab_size": "the vocabulary files tell",
    "src_embed_file": "embeddings are trained",
    "tgt_embed_file": "embeddings are trained",
}

# Key -> (the values that are fine, why others are refused).
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "unit_type": (("gru",), "the paper's cells are GRUs, so use gru"),
    "attention": (("bahdanau",), "the paper's attention is Bahdanau's, so use bahdanau"),
    "attention_architecture": (("standard",), "GNMT's are not built, so use standard"),
    "encoder_type": (("bi",), "the paper's encoder is bidirectional, so use bi"),
    "residual": ((False, None), "residual connections are not built, so use false"),
    "pass_hidden_state": (
        (False,),
        "the decoder starts from z or from zeros, as in the paper, so use false",
    ),
    "embed_prefix": ((None,), "vectors are trained, never read from files, so leave it out"),
    "num_sampled_softmax": ((0, None), "the softmax is always full, so use 0"),
    "use_char_encode": ((False, None), "a model of characters is not built, so use false"),
    "language_model": ((False, None), "a model needs a source, so use false"),
    "coverage_penalty_weight": ((0, None), "the paper's search has none, so use 0"),
    "output_attention": (
        (True, None),
        "every decoder_style reads the attention's output, so use true",
    ),
    "num_encoder_residual_layers": ((0, None), "residual connections are not built, so use 0"),
    "num_decoder_residual_layers": ((0, None), "residual connections are not built, so use 0"),
    "src_embed_file": ((None,), "vectors are trained, never read from files, so leave it out"),
    "tgt_embed_file": ((None,), "vectors are trained, never read from files, so leave it out"),
}

# TF-NMT writes null where it means "not set".
NULL_IS_DEFAULT = (
    "random_seed",
    "src_max_len_infer",
    "steps_per_external_eval",
    "num_encoder_layers",
    "num_decoder_layers",
    "decay_scheme",
    "warmup_steps",
)
# And an empty text where it means "no file".
EMPTY_IS_NULL = (
    "embed_prefix",
    "src_embed_file",
    "tgt_embed_file",
    "mono_prefix",
    "synthetic_prefix",
    "train_prefix",
    "dev_prefix",
    "test_prefix",
    "vocab_prefix",
)


def translate(
    layer: Mapping[str, Any], *, where: Callable[[str], str], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of one file or command line under our names and in our values.

    `where(key)` tells the reader of a warning or an error where the key stands.
    """
    result: dict[str, Any] = {}
    for key, value in layer.items():
        value = None if value == "" and key in EMPTY_IS_NULL else value
        _refuse(key, value, where=where)
        if key in IGNORED:
            sentence = f"{key} has no meaning here and is ignored: {IGNORED[key]}."
            warnings.warn(f"{where(key)}{sentence}", stacklevel=5)
        elif key in ALIASES:
            name, values = ALIASES[key]
            value = "none" if value is None else value
            if value not in [*values, *values.values()]:
                wanted = " or ".join(json.dumps(old) for old in values)
                raise UserError(
                    f"{where(key)}{key} must be {wanted}, not {json.dumps(value)}"
                    f"{did_you_mean(str(value), values) or '.'}"
                )
            new = values.get(value, value)
            if layer.get(name, new) not in (new, value):
                raise UserError(
                    f"{where(key)}{key} {json.dumps(value)} and {name} "
                    f"{json.dumps(layer[name])} contradict each other: give {name} alone."
                )
            result[name] = new
        else:
            result[key] = _translate_value(key, value, defaults=defaults)
    if result.get("num_layers") is not None:
        # In TF-NMT, too, the special names win over the general one.
        for name in ("num_encoder_layers", "num_decoder_layers"):
            if layer.get(name) is None:
                result[name] = result["num_layers"]
    return result


def _translate_value(key: str, value: Any, *, defaults: Mapping[str, Any]) -> Any:
    for name, values in ALIASES.values():
        if key == name and isinstance(value, str):
            return values.get(value, value)
    if value is None and key in NULL_IS_DEFAULT:
        return defaults[key]
    if key == "z_dim" and isinstance(value, str) and value.isdecimal():
        return int(value)  # The authors' flag is a text.
    return value


def _refuse(key: str, value: Any, *, where: Callable[[str], str]) -> None:
    if key in REFUSED:
        fine, why = REFUSED[key]
        # Not `in`: 0 and false are equal in Python.
        if not any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in fine):
            raise UserError(f"{where(key)}{key} {json.dumps(value)} is not supported: {why}.")
    if key in ("joint_model_type", "model_type") and value in CONTINUOUS:
        shown = f"{where(key)}{key} {json.dumps(value)}"
        raise UserError(f"{shown} is not supported: {_WHY_NOT_CONTINUOUS}.")
