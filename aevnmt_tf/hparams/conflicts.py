"""Which settings exclude each other, and what follows from others."""

import json
from collections.abc import Container, Mapping
from typing import Any

_SEARCHES = ("beam_width", "sampling_temperature")  # one of them at a time

# What the paper's decoder and encoder are; other values are TF-NMT's.
PAPER_FORM = {
    "unit_type": "gru",
    "encoder_type": "bi",
    "attention": "bahdanau",
    "attention_architecture": "standard",
    "output_attention": True,
    "residual": False,
    "pass_hidden_state": False,
    "language_model": False,
}
_LATENT = ("aevnmt", "vnmt", "vae")
# What a language model turns off and on, as in TF-NMT.
_LANGUAGE_MODEL = {
    "attention": "",
    "attention_architecture": "standard",
    "pass_hidden_state": False,
    "share_vocab": True,
}


class Clash(ValueError):
    """Two settings, `names`, that exclude each other."""

    def __init__(self, names: tuple[str, str], sentence: str):
        super().__init__(sentence)
        self.names = names


def supersede(given: dict[str, Any], *, later: Mapping[str, Any]) -> None:
    """Forget what a later file or flag rules out: a temperature ends beam search, a beam
    sampling."""
    for name, other in (_SEARCHES, _SEARCHES[::-1]):
        if later.get(name) and other not in later:
            given.pop(other, None)
    if "infer_mode" not in later and any(name in later for name in _SEARCHES):
        given.pop("infer_mode", None)


def resolve(values: Mapping[str, Any], *, given: Container[str]) -> dict[str, Any]:
    """Fill in what follows from other settings; a Clash where two exclude each other.

    `given` holds the names that a file or a flag says, the rest are defaults.
    """
    values = dict(values)
    for mode, name in (("beam_search", "beam_width"), ("sample", "sampling_temperature")):
        if values["infer_mode"] == mode and not values[name]:
            _exclude(values, "infer_mode", name, f"{mode} needs one above 0")
    values["infer_mode"] = None  # It has set beam_width and sampling_temperature.
    if values["sampling_temperature"] > 0 and "beam_width" not in given:
        values["beam_width"] = 0
    if values["text_pipeline"] == "moses" and "subword_option" not in given:
        values["subword_option"] = "bpe"
    if values["model_type"] == "vae":  # there is one side, and it stands in for the other
        values["src"] = values["src"] or ("en" if values["train_prefix"] is None else None)
        values["tgt"], values["share_vocab"] = values["src"], True
    is_vnmt = values["model_type"] == "vnmt"
    if is_vnmt and "z_inference_from" not in given:
        values["z_inference_from"] = "source_target"
    has_r = values["z_inference_from"] == "source_target" and not is_vnmt
    if has_r and values["r_train_mode"] is None:
        values["r_train_mode"] = "KLq"
    if isinstance(values["avg_ckpts"], bool):
        values["avg_ckpts"] = values["num_keep_ckpts"] if values["avg_ckpts"] else 0
    if values["steps_per_checkpoint"] is None:
        values["steps_per_checkpoint"] = 10 * values["steps_per_stats"]
    if values["train_prefix"] is None:
        # The demo corpus is English and German.
        other = {"en": "de", "de": "en"}
        values["src"] = values["src"] or other.get(values["tgt"], "en")
        values["tgt"] = values["tgt"] or other.get(values["src"], "de")
    if values["language_model"]:
        values |= {**_LANGUAGE_MODEL, "src": values["tgt"]}
    if "decoder_style" not in given and any(values[k] != v for k, v in PAPER_FORM.items()):
        values["decoder_style"] = "tf_nmt"
    if values["num_encoder_layers"] != values["num_decoder_layers"]:
        # As in TF-NMT: there is no state for each layer. With z: see _refuse_form.
        values["pass_hidden_state"] &= values["model_type"] in _LATENT
    _refuse_model(values)
    _refuse_form(values)
    _refuse_training(values)
    _refuse_decoding(values)
    _refuse_data(values)
    return values


def _exclude(values: Mapping[str, Any], first: str, second: str, advice: str) -> None:
    one, other = (json.dumps(values[name], ensure_ascii=False) for name in (first, second))
    sentence = f"{first} {one} cannot be combined with {second} {other}: {advice}."
    raise Clash((first, second), sentence)


def _refuse_vnmt(v: Mapping[str, Any]) -> None:
    if v["z_inference_from"] == "source_only":
        _exclude(v, "model_type", "z_inference_from", "the posterior of vnmt is q(z|x, y)")
    if v["r_train_mode"] is not None:
        advice = "vnmt predicts with its prior p(z|x) and has no r(z|x)"
        _exclude(v, "model_type", "r_train_mode", advice)
    if v["prior"] != "standard":
        _exclude(v, "model_type", "prior", "vnmt has a prior of its own, p(z|x)")


def _refuse_vae(v: Mapping[str, Any]) -> None:
    if v["z_inference_from"] != "source_only":
        _exclude(v, "model_type", "z_inference_from", "a vae infers z from its one sentence")
    for name in ("mono_prefix", "synthetic_prefix"):
        if v[name] is not None:
            _exclude(v, "model_type", name, "train_prefix names the sentences of a vae")
    if v["bow_target_weight"]:
        _exclude(v, "model_type", "bow_target_weight", "a vae has bow_source_weight alone")


def _refuse_against_collapse(v: Mapping[str, Any]) -> None:
    if v["feed_z"] and v["decoder_style"] != "paper":
        _exclude(v, "feed_z", "decoder_style", "z is fed to the paper's form of the decoder")
    if v["bn_scale"] and (v["prior"] != "standard" or v["model_type"] == "vnmt"):
        name = "model_type" if v["model_type"] == "vnmt" else "prior"
        advice = "a prior that learns would follow the normalised means, so leave bn_scale out"
        _exclude(v, "bn_scale", name, advice)


def _refuse_model(v: Mapping[str, Any]) -> None:
    _refuse_against_collapse(v)
    if v["model_type"] == "vnmt":
        _refuse_vnmt(v)
    if v["model_type"] == "vae":
        _refuse_vae(v)
    if v["z_inference_from"] == "source_only" and v["r_train_mode"] is not None:
        _exclude(
            v,
            "r_train_mode",
            "z_inference_from",
            "only source_target has an r(z|x), so set that or leave r_train_mode out",
        )
    if v["prior"] == "mixture" and v["free_bits_for"].endswith("dimension"):
        _exclude(
            v,
            "prior",
            "free_bits_for",
            "the KL to a mixture has no value per dimension: set free_bits_for to z or batch",
        )
    if v["encoder_type"] == "bi" and v["num_encoder_layers"] % 2:
        _exclude(
            v,
            "encoder_type",
            "num_encoder_layers",
            "a bidirectional layer counts as 2, so the number of layers must be even",
        )
    if v["sos"] == v["eos"]:
        _exclude(v, "sos", "eos", "the two symbols must differ")


def _refuse_form(v: Mapping[str, Any]) -> None:
    if v["decoder_style"] == "paper":
        for name, value in PAPER_FORM.items():
            if v[name] != value:
                advice = "it is one of TF-NMT's forms, so set decoder_style to tf_nmt"
                _exclude(v, name, "decoder_style", advice)
    has_z = v["model_type"] in _LATENT
    if v["pass_hidden_state"] and has_z:
        advice = "the decoder starts from z, so set pass_hidden_state to false"
        _exclude(v, "pass_hidden_state", "model_type", advice)
    is_gnmt = v["attention_architecture"] != "standard"
    if not v["attention"] and is_gnmt:
        _exclude(v, "attention", "attention_architecture", "GNMT's decoders attend")
    if v["language_model"] and v["model_type"] != "cond":
        _exclude(
            v, "language_model", "model_type", "it is for cond, a model without z and P(x)"
        )
    if has_z and not v["attention"] and v["model_type"] != "vae":
        advice = "the decoder starts from z, so that it would not see the source at all"
        _exclude(v, "attention", "model_type", advice)
    is_blind = not v["attention"] and not v["pass_hidden_state"] and not has_z
    if is_blind and not v["language_model"]:
        advice = (
            "nothing would carry the source to the decoder (depths that differ turn "
            "pass_hidden_state off)"
        )
        _exclude(v, "attention", "pass_hidden_state", advice)
    if not v["output_attention"] and (is_gnmt or not v["attention"]):
        advice = "it is for the standard architecture with attention"
        _exclude(v, "output_attention", "attention_architecture", advice)
    if v["encoder_type"] == "gnmt" and v["num_encoder_layers"] < 2:
        advice = "gnmt has a layer in both directions and at least one above it"
        _exclude(v, "encoder_type", "num_encoder_layers", advice)
    if v["embed_prefix"] is not None and v["model_type"] == "vae":
        _exclude(v, "embed_prefix", "model_type", "it is for pairs, with a file for each side")
    if v["embed_prefix"] is not None and v["tie_embeddings"]:
        advice = "an output layer cannot learn with embeddings that stay fixed"
        _exclude(v, "embed_prefix", "tie_embeddings", advice)
    if v["unit_type"] != "gru" and v["gru_reset"] != "before":
        _exclude(v, "unit_type", "gru_reset", "an LSTM has no reset gate")


def _refuse_training(v: Mapping[str, Any]) -> None:
    if v["avg_ckpts"] > v["num_keep_ckpts"]:
        _exclude(v, "avg_ckpts", "num_keep_ckpts", "only kept checkpoints can be averaged")
    if v["objective"] == "iwae" and v["free_bits"]:
        advice = "free bits apply to the KL, which the importance-weighted bound does not have"
        _exclude(v, "objective", "free_bits", advice)
    if v["mdr_rate"] and v["free_bits"]:
        advice = "both set a minimum for the KL, so use one of them"
        _exclude(v, "mdr_rate", "free_bits", advice)
    if v["mdr_rate"] and v["objective"] == "iwae":
        advice = "the importance-weighted bound has no KL term"
        _exclude(v, "mdr_rate", "objective", advice)
    if v["mdr_rate"] and v["gradient_accumulation_steps"] > 1:
        advice = "the multiplier follows the KL of one batch, so use larger batches"
        _exclude(v, "mdr_rate", "gradient_accumulation_steps", advice)
    if v["consistency_weight"] and v["model_type"] == "vae":
        advice = "it compares predictions of the target, which a vae does not have"
        _exclude(v, "consistency_weight", "model_type", advice)
    for name in ("num_train_samples", "objective"):
        if v["consistency_weight"] and v[name] not in (1, "elbo"):
            advice = "each of the two passes has one draw of z"
            _exclude(v, "consistency_weight", name, advice)
    if v["KL_annealing_cycles"] > 1 and not v["KL_annealing_steps"]:
        advice = "a cycle is 2 x KL_annealing_steps long, so set both"
        _exclude(v, "KL_annealing_cycles", "KL_annealing_steps", advice)
    if v["decay_scheme"] == "linear" and v["check_convergence_every"]:
        _exclude(
            v,
            "decay_scheme",
            "check_convergence_every",
            "the rate is 0 after num_train_steps, so set check_convergence_every to 0",
        )


def _refuse_decoding(v: Mapping[str, Any]) -> None:
    if v["beam_width"] > 0 and v["sampling_temperature"] > 0:
        _exclude(
            v,
            *_SEARCHES,
            "set beam_width to 0 to sample, or sampling_temperature to 0 for beam search",
        )
    most = max(v["beam_width"], 1)
    if v["sampling_temperature"] == 0 and v["num_translations_per_input"] > most:
        _exclude(
            v,
            "num_translations_per_input",
            "beam_width",
            f"this search returns at most {most}, so use a wider beam or sample",
        )


def _refuse_mono(v: Mapping[str, Any]) -> None:
    if v["mono_prefix"] is None:
        return
    if v["model_type"] not in ("joint", "aevnmt"):
        advice = "a sentence without a translation needs a model of the source"
        _exclude(v, "mono_prefix", "model_type", advice)
    if v["model_type"] == "aevnmt" and v["z_inference_from"] != "source_only":
        advice = "q(z|x, y) cannot read a sentence without a translation"
        _exclude(v, "mono_prefix", "z_inference_from", advice)
    if v["synthetic_prefix"] is not None:
        advice = "there is one stream of batches beside the gold one"
        _exclude(v, "mono_prefix", "synthetic_prefix", advice)
    if v["text_pipeline"] == "moses":
        advice = "the Moses pipeline prepares pairs alone"
        _exclude(v, "mono_prefix", "text_pipeline", advice)


def _refuse_data(v: Mapping[str, Any]) -> None:
    _refuse_mono(v)
    if v["train_prefix"] is None:
        for name in ("dev_prefix", "synthetic_prefix", "train_ratios"):
            if v[name] is not None:
                advice = (
                    f"without train_prefix the demo corpus is used; set it or leave {name} out"
                )
                _exclude(v, name, "train_prefix", advice)
        for name in ("src", "tgt"):
            if v[name] not in ("en", "de"):
                _exclude(
                    v,
                    name,
                    "train_prefix",
                    "without train_prefix the demo corpus is used, which has en and de",
                )
    else:
        for name in ("src", "tgt"):
            if v[name] is None:
                _exclude(
                    v,
                    "train_prefix",
                    name,
                    f"files are named PREFIX.LANG, so set {name} as well",
                )
    # TF-NMT saves a language model with the target in both places.
    if v["src"] == v["tgt"] and v["model_type"] != "vae" and not v["language_model"]:
        _exclude(v, "src", "tgt", "source and target files would be the same")
    count = len(v["train_prefix"]) if isinstance(v["train_prefix"], tuple) else 1
    if v["train_ratios"] is not None and len(v["train_ratios"]) != count:
        advice = f"give one ratio per prefix, {count} in all"
        _exclude(v, "train_ratios", "train_prefix", advice)
    tag = v["synthetic_tag"]
    if tag is not None and v["synthetic_prefix"] is None:
        _exclude(v, "synthetic_tag", "synthetic_prefix", "there is no synthetic text to tag")
    if tag is not None and (tag.split() != [tag] or tag in ("<unk>", v["sos"], v["eos"])):
        names = ("synthetic_tag", "synthetic_tag")
        shown = json.dumps(tag, ensure_ascii=False)
        raise Clash(
            names,
            f"synthetic_tag must be a single word other than the special symbols, not {shown}.",
        )
    if v["subword_sampling"] and v["subword_option"] != "spm":
        advice = "only SentencePiece can sample segmentations"
        _exclude(v, "subword_sampling", "subword_option", advice)
    if v["text_pipeline"] == "moses" and v["subword_option"] == "spm":
        _exclude(v, "text_pipeline", "subword_option", 'with moses, set it to "bpe" or ""')
