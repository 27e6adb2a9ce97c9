"""TF-NMT's settings: aliases, keys without effect, defaults, and values that are refused."""

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

# Values of model_type and its alias that exist only in the authors' code.
CONTINUOUS = ("cbaseline", "csimple", "cvae")
_WHY_NOT_CONTINUOUS = "the continuous variants are not part of the published paper"

# Keys without effect here, and why. Each gives one warning.
IGNORED: dict[str, str] = {
    "time_major": "tensors are batch-major",
    "colocate_gradients_with_ops": "TensorFlow 2 places gradients itself",
    "num_gpus": "distribute chooses the devices",
    "num_inter_threads": "TensorFlow chooses the number of threads",
    "num_intra_threads": "TensorFlow chooses the number of threads",
    "log_device_placement": "--verbose shows TensorFlow's log messages",
    "scope": "there are no variable scopes",
    "Qx_encoder": "it is for the continuous variants",
    "Qx_decoder": "it is for the continuous variants",
    "Qx_covariance": "it is for the continuous variants",
    "num_embeddings_partitions": "embeddings are not partitioned",
    "jobid": "a run is a single job",
    "num_workers": "distribute chooses the devices",
    "override_loaded_hparams": "flags always override files",
    "check_special_token": "vocabularies are always checked",
    "num_sampled_softmax": "the softmax is always full",
    "use_char_encode": "there are no character-level models",
    # Keys that TF-NMT adds to the file in its out_dir.
    **{
        f"{which}_{metric}{end}": "it is the state of a finished run"
        for metric in ("bleu", "rouge", "accuracy", "word_accuracy")
        for which in ("best", "avg_best")
        for end in ("", "_dir")
    },
    "epoch_step": "it is the state of a finished run",
    "src_vocab_file": "vocab_prefix names the files",
    "tgt_vocab_file": "vocab_prefix names the files",
    "src_vocab_size": "the vocabulary files determine it",
    "tgt_vocab_size": "the vocabulary files determine it",
    "num_enc_emb_partitions": "embeddings are not partitioned",
    "num_dec_emb_partitions": "embeddings are not partitioned",
}

# Flags of nmt.nmt that are no settings -> what to use instead.
FLAGS: dict[str, str] = {
    **{
        f"--{key}": f"it has no meaning here, {why}; leave it out."
        for key, why in IGNORED.items()
    },
    "--hparams_path": "use --hparams FILE.",
    "--ckpt": "use --checkpoint best, last or average of the other commands.",
    "--inference_input_file": "use aevnmt translate --model RUN --input FILE.",
    "--inference_output_file": "use aevnmt translate --model RUN --output FILE.",
    "--inference_list": "use aevnmt translate --model RUN --lines 0,3,7.",
    "--inference_ref_file": "use aevnmt evaluate --model RUN --src FILE --ref FILE.",
    "--jobid": "use aevnmt translate --shard I/N, where I counts from 1.",
}

# A file that has one of the first keys, and none of the second, is TF-NMT's own.
_MARKS = ("time_major", "colocate_gradients_with_ops")
_MODELS = ("model_type", "joint_model_type", "decoder_style", "base")

# Keys with the values that are accepted, and what to do about others.
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "unit_type": (("gru", "lstm", "layer_norm_lstm"), "use gru, lstm or layer_norm_lstm"),
    "num_sampled_softmax": ((0, None), "the softmax is always full, so use 0"),
    "use_char_encode": ((False, None), "there are no character-level models, so use false"),
}

# In TF-NMT's files, null means that these are not set,
NULL_IS_DEFAULT = (
    "random_seed",
    "src_max_len_infer",
    "steps_per_external_eval",
    "num_encoder_layers",
    "num_decoder_layers",
    "decay_scheme",
    "warmup_steps",
    "residual",
    "language_model",
    "output_attention",
    "coverage_penalty_weight",
)
# and an empty string that there is no file.
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


def is_tf_nmt(values: Mapping[str, Any]) -> bool:
    """Return whether a settings file is TF-NMT's own, not the authors' or ours."""
    return any(k in values for k in _MARKS) and not any(k in values for k in _MODELS)


def residual_layers(
    encoder_type: str, *, encoder_layers: int, decoder_layers: int
) -> tuple[int, int]:
    """Return how many layers, from the top, have residual connections: encoder and decoder.

    In TF-NMT these are num_encoder_residual_layers and num_decoder_residual_layers.
    """
    if encoder_type != "gnmt":
        return encoder_layers - 1, decoder_layers - 1
    # The input of the first layer on top of the bidirectional one has another size.
    below = encoder_layers - 2
    return below, below if encoder_layers == decoder_layers else decoder_layers - 1


def translate(
    layer: Mapping[str, Any], *, where: Callable[[str], str], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a file or a command line with our names and values.

    `where(key)` starts a message about a key.
    """
    result: dict[str, Any] = {}
    for key, value in layer.items():
        value = None if value == "" and key in EMPTY_IS_NULL else value
        _refuse(key, value, where=where)
        ignored = IGNORED.get(key) or _follows(key, value, layer, where=where)
        if ignored:
            sentence = f"{key} has no meaning here and is ignored: {ignored}."
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
    _set_search(result, layer.get("infer_mode"))
    if result.get("num_layers") is not None:
        # As in TF-NMT, the specific names override the general one.
        for name in ("num_encoder_layers", "num_decoder_layers"):
            if layer.get(name) is None:
                result[name] = result["num_layers"]
    return result


def _set_search(result: dict[str, Any], infer_mode: str | None) -> None:
    """Apply infer_mode to the settings of the searches, as TF-NMT does."""
    if infer_mode in ("greedy", "sample"):
        result["beam_width"] = 0
    if infer_mode in ("greedy", "beam_search"):
        result["sampling_temperature"] = 0.0


def _follows(
    key: str, value: Any, layer: Mapping[str, Any], *, where: Callable[[str], str]
) -> str:
    """Return why a key is redundant, or ""; raise UserError if other keys contradict it."""
    expected: Any = None
    if key in ("init_op", "init_weight") and "joint_model_type" in layer:
        return "weights are initialised as in the authors' code"
    if key in ("num_encoder_residual_layers", "num_decoder_residual_layers"):
        expected = 0
        depths: list[Any] = [layer.get(f"num_{side}_layers") for side in ("encoder", "decoder")]
        if layer.get("residual") and None not in depths:
            found = residual_layers(
                layer.get("encoder_type", "uni"),
                encoder_layers=depths[0],
                decoder_layers=depths[1],
            )
            expected = found["decoder" in key]
        why = "it follows from residual"
    elif key in ("src_embed_file", "tgt_embed_file"):
        prefix = layer.get("embed_prefix")
        expected = f"{prefix}.{layer.get(key[:3])}" if prefix else None
        why = "embed_prefix names the files"
    else:
        return ""
    if value not in (None, expected):
        shown = json.dumps(expected)
        raise UserError(
            f"{where(key)}{key} {json.dumps(value)} is not supported: {why}, so use {shown}."
        )
    return why


def _translate_value(key: str, value: Any, *, defaults: Mapping[str, Any]) -> Any:
    for name, values in ALIASES.values():
        if key == name and isinstance(value, str):
            return values.get(value, value)
    if value is None and key in NULL_IS_DEFAULT:
        return defaults[key]
    if key == "attention_architecture" and value == "":
        return defaults[key]  # TF-NMT saves language models like this
    if key == "z_dim" and isinstance(value, str) and value.isdecimal():
        return int(value)  # the authors' flag is a string
    return value


def _refuse(key: str, value: Any, *, where: Callable[[str], str]) -> None:
    if key in REFUSED:
        fine, why = REFUSED[key]
        # Not `in`, because 0 equals False.
        if not any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in fine):
            raise UserError(f"{where(key)}{key} {json.dumps(value)} is not supported: {why}.")
    if key in ("joint_model_type", "model_type") and value in CONTINUOUS:
        shown = f"{where(key)}{key} {json.dumps(value)}"
        raise UserError(f"{shown} is not supported: {_WHY_NOT_CONTINUOUS}.")
