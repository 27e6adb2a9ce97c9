"""Settings that follow from other settings, and settings that exclude each other."""

import itertools
import json
from collections.abc import Container, Iterable, Mapping
from typing import Any

_SEARCHES = ("beam_width", "sampling_temperature")  # at most one of them is in use

# The architecture of the paper. Other values are TF-NMT's.
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
# What a language model implies, as in TF-NMT.
_LANGUAGE_MODEL = {
    "attention": "",
    "attention_architecture": "standard",
    "pass_hidden_state": False,
    "share_vocab": True,
}

Values = Mapping[str, Any]
# Whether two settings clash, their names, and why or what to do.
Rule = tuple[Any, str, str, str]


class Clash(ValueError):
    """Two settings, `names`, that exclude each other."""

    def __init__(self, names: tuple[str, str], sentence: str):
        super().__init__(sentence)
        self.names = names


def supersede(given: dict[str, Any], *, later: Values) -> None:
    """Drop the settings that a later file or flag overrides.

    A temperature overrides an earlier beam width, and a beam width an earlier temperature.
    """
    for name, other in (_SEARCHES, _SEARCHES[::-1]):
        if later.get(name) and other not in later:
            given.pop(other, None)
    if "infer_mode" not in later and any(name in later for name in _SEARCHES):
        given.pop("infer_mode", None)


def resolve(values: Values, *, given: Container[str]) -> dict[str, Any]:
    """Fill in settings that follow from others; raise Clash if two exclude each other.

    `given` holds the names that a file or a flag sets. The other values are defaults.
    """
    _refuse(_infer_mode_rules(values), values)
    values = _filled_in(values, given=given)
    rules = (_model_rules, _form_rules, _training_rules, _decoding_rules, _data_rules)
    _refuse(itertools.chain.from_iterable(rule(values) for rule in rules), values)
    tag, symbols = values["synthetic_tag"], ("<unk>", values["sos"], values["eos"])
    if tag is not None and (tag.split() != [tag] or tag in symbols):
        raise Clash(
            ("synthetic_tag", "synthetic_tag"),
            "synthetic_tag must be a single word other than the special symbols, not "
            f"{json.dumps(tag, ensure_ascii=False)}.",
        )
    return values


def _refuse(rules: Iterable[Rule], values: Values) -> None:
    for clashes, first, second, why in rules:
        if clashes:
            one, two = (json.dumps(values[n], ensure_ascii=False) for n in (first, second))
            sentence = f"{first} {one} cannot be combined with {second} {two}: {why}."
            raise Clash((first, second), sentence)


def _filled_in(defaults: Values, *, given: Container[str]) -> dict[str, Any]:
    v = dict(defaults)
    v["infer_mode"] = None  # beam_width and sampling_temperature already follow it
    if v["sampling_temperature"] > 0 and "beam_width" not in given:
        v["beam_width"] = 0
    if v["text_pipeline"] == "moses" and "subword_option" not in given:
        v["subword_option"] = "bpe"
    if v["model_type"] == "vae":  # its only side stands in for the other
        v["src"] = v["src"] or ("en" if v["train_prefix"] is None else None)
        v["tgt"], v["share_vocab"] = v["src"], True
    is_vnmt = v["model_type"] == "vnmt"
    if is_vnmt and "z_inference_from" not in given:
        v["z_inference_from"] = "source_target"
    has_r = v["z_inference_from"] == "source_target" and not is_vnmt
    if has_r and v["r_train_mode"] is None:
        v["r_train_mode"] = "KLq"
    if isinstance(v["avg_ckpts"], bool):
        v["avg_ckpts"] = v["num_keep_ckpts"] if v["avg_ckpts"] else 0
    if v["steps_per_checkpoint"] is None:
        v["steps_per_checkpoint"] = 10 * v["steps_per_stats"]
    if v["train_prefix"] is None:  # the demo corpus is English and German
        other = {"en": "de", "de": "en"}
        v["src"] = v["src"] or other.get(v["tgt"], "en")
        v["tgt"] = v["tgt"] or other.get(v["src"], "de")
    if v["language_model"]:
        v |= {**_LANGUAGE_MODEL, "src": v["tgt"]}
    if "decoder_style" not in given and any(v[k] != value for k, value in PAPER_FORM.items()):
        v["decoder_style"] = "tf_nmt"
    if v["num_encoder_layers"] != v["num_decoder_layers"]:
        # As in TF-NMT: the layers cannot be paired. Models with z are refused below instead.
        v["pass_hidden_state"] &= v["model_type"] in _LATENT
    return v


# The tables of rules are wrapped by hand, so that each rule can be read at a glance.
# fmt: off
def _infer_mode_rules(v: Values) -> list[Rule]:
    return [
        (v["infer_mode"] == mode and not v[name], "infer_mode", name,
         f"{mode} needs a {name} above 0")
        for mode, name in (("beam_search", "beam_width"), ("sample", "sampling_temperature"))
    ]


def _model_rules(v: Values) -> list[Rule]:
    is_vnmt, is_vae = v["model_type"] == "vnmt", v["model_type"] == "vae"
    is_source_only = v["z_inference_from"] == "source_only"
    return [
        (v["feed_z"] and v["decoder_style"] != "paper", "feed_z", "decoder_style",
         "only the paper's decoder can read z at every step"),
        (v["bn_scale"] and is_vnmt, "bn_scale", "model_type",
         "the learned prior of vnmt would follow the normalised means"),
        (v["bn_scale"] and v["prior"] != "standard", "bn_scale", "prior",
         "a learned prior would follow the normalised means"),
        (is_vnmt and is_source_only, "model_type", "z_inference_from",
         "the posterior of vnmt is q(z|x, y)"),
        (is_vnmt and v["r_train_mode"] is not None, "model_type", "r_train_mode",
         "vnmt predicts z with its prior p(z|x) and has no r(z|x)"),
        (is_vnmt and v["prior"] != "standard", "model_type", "prior",
         "vnmt always has the prior p(z|x)"),
        (is_vae and not is_source_only, "model_type", "z_inference_from",
         "a vae infers z from its only sentence"),
        *((is_vae and v[name] is not None, "model_type", name,
           "a vae is trained on the sentences of train_prefix only")
          for name in ("mono_prefix", "synthetic_prefix")),
        (is_vae and v["bow_target_weight"], "model_type", "bow_target_weight",
         "a vae has no target, so use bow_source_weight"),
        (is_source_only and v["r_train_mode"] is not None, "r_train_mode", "z_inference_from",
         "only source_target has an r(z|x), so set that or leave r_train_mode out"),
        (v["prior"] == "mixture" and v["free_bits_for"].endswith("dimension"),
         "prior", "free_bits_for",
         "the KL to a mixture has no value per dimension, so set free_bits_for to z or batch"),
        (v["encoder_type"] == "bi" and v["num_encoder_layers"] % 2,
         "encoder_type", "num_encoder_layers",
         "a bidirectional layer counts as 2, so the number of layers must be even"),
        (v["sos"] == v["eos"], "sos", "eos", "the two symbols must differ"),
    ]


def _form_rules(v: Values) -> list[Rule]:
    has_z, is_vae = v["model_type"] in _LATENT, v["model_type"] == "vae"
    is_gnmt = v["attention_architecture"] != "standard"
    is_blind = not (v["attention"] or v["pass_hidden_state"] or has_z or v["language_model"])
    return [
        *((v["decoder_style"] == "paper" and v[name] != value, name, "decoder_style",
           "the paper's model does not have it, so set decoder_style to tf_nmt")
          for name, value in PAPER_FORM.items()),
        (v["pass_hidden_state"] and has_z, "pass_hidden_state", "model_type",
         "the decoder starts from z, so set pass_hidden_state to false"),
        (not v["attention"] and is_gnmt, "attention", "attention_architecture",
         "GNMT's decoders need attention"),
        (v["language_model"] and v["model_type"] != "cond", "language_model", "model_type",
         "a language model has neither z nor P(x), so set model_type to cond"),
        (has_z and not v["attention"] and not is_vae, "attention", "model_type",
         "the decoder starts from z and would not see the source at all"),
        (is_blind, "attention", "pass_hidden_state",
         "the decoder would not see the source (if encoder and decoder differ in depth, "
         "pass_hidden_state is off)"),
        (not v["output_attention"] and (is_gnmt or not v["attention"]),
         "output_attention", "attention_architecture",
         "false needs the standard architecture with attention"),
        (v["encoder_type"] == "gnmt" and v["num_encoder_layers"] < 2,
         "encoder_type", "num_encoder_layers",
         "gnmt has a bidirectional layer and at least one layer on top of it"),
        (v["embed_prefix"] is not None and is_vae, "embed_prefix", "model_type",
         "pretrained embeddings are for models with a source and a target"),
        (v["embed_prefix"] is not None and v["tie_embeddings"],
         "embed_prefix", "tie_embeddings",
         "the output layer could not be trained, because pretrained embeddings stay fixed"),
        (v["unit_type"] != "gru" and v["gru_reset"] != "before", "unit_type", "gru_reset",
         "an LSTM has no reset gate"),
    ]


def _training_rules(v: Values) -> list[Rule]:
    has_mdr, is_iwae = v["mdr_rate"] > 0, v["objective"] == "iwae"
    has_consistency = v["consistency_weight"] > 0
    return [
        (v["avg_ckpts"] > v["num_keep_ckpts"], "avg_ckpts", "num_keep_ckpts",
         "only checkpoints that are kept can be averaged"),
        (is_iwae and v["free_bits"], "objective", "free_bits",
         "free bits apply to the KL, and the importance-weighted bound has no KL term"),
        (has_mdr and v["free_bits"], "mdr_rate", "free_bits",
         "both set a minimum for the KL, so use one of them"),
        (has_mdr and is_iwae, "mdr_rate", "objective",
         "the importance-weighted bound has no KL term"),
        (has_mdr and v["gradient_accumulation_steps"] > 1,
         "mdr_rate", "gradient_accumulation_steps",
         "the multiplier follows the KL of single batches, so use larger batches"),
        (has_consistency and v["model_type"] == "vae", "consistency_weight", "model_type",
         "it compares predictions of the target, which a vae does not have"),
        (has_consistency and v["num_train_samples"] > 1,
         "consistency_weight", "num_train_samples",
         "each of the two passes draws a single z"),
        (has_consistency and is_iwae, "consistency_weight", "objective",
         "each of the two passes draws a single z"),
        (v["KL_annealing_cycles"] > 1 and not v["KL_annealing_steps"],
         "KL_annealing_cycles", "KL_annealing_steps",
         "a cycle is 2 x KL_annealing_steps updates long, so set both"),
        (v["decay_scheme"] == "linear" and v["check_convergence_every"],
         "decay_scheme", "check_convergence_every",
         "the learning rate is 0 after num_train_steps, so set check_convergence_every to 0"),
    ]


def _decoding_rules(v: Values) -> list[Rule]:
    most = max(v["beam_width"], 1)
    return [
        (v["beam_width"] > 0 and v["sampling_temperature"] > 0, *_SEARCHES,
         "set beam_width to 0 to sample, or sampling_temperature to 0 for beam search"),
        (v["sampling_temperature"] == 0 and v["num_translations_per_input"] > most,
         "num_translations_per_input", "beam_width",
         f"this search returns at most {most}, so use a wider beam or sample"),
    ]


def _data_rules(v: Values) -> list[Rule]:
    has_mono, has_text = v["mono_prefix"] is not None, v["train_prefix"] is not None
    num_corpora = len(v["train_prefix"]) if isinstance(v["train_prefix"], tuple) else 1
    # TF-NMT saves a language model with the target language as src, too.
    has_one_side = v["model_type"] == "vae" or v["language_model"]
    demo = "without train_prefix, the demo corpus is used"
    return [
        (has_mono and v["model_type"] not in ("joint", "aevnmt"), "mono_prefix", "model_type",
         "only joint and aevnmt can train on source sentences without translations"),
        (has_mono and v["model_type"] == "aevnmt" and v["z_inference_from"] != "source_only",
         "mono_prefix", "z_inference_from",
         "q(z|x, y) cannot read a sentence without a translation"),
        (has_mono and v["synthetic_prefix"] is not None, "mono_prefix", "synthetic_prefix",
         "only one of them can be mixed with the parallel text"),
        (has_mono and v["text_pipeline"] == "moses", "mono_prefix", "text_pipeline",
         "the Moses pipeline prepares parallel text only"),
        *((not has_text and v[name] is not None, name, "train_prefix",
           f"{demo}, so set train_prefix or leave {name} out")
          for name in ("dev_prefix", "synthetic_prefix", "train_ratios")),
        *((not has_text and v[name] not in ("en", "de"), name, "train_prefix",
           f"{demo}, which is in en and de")
          for name in ("src", "tgt")),
        *((has_text and v[name] is None, "train_prefix", name,
           f"files are named PREFIX.LANG, so set {name} as well")
          for name in ("src", "tgt")),
        (v["src"] == v["tgt"] and not has_one_side, "src", "tgt",
         "source and target files would be the same"),
        (v["train_ratios"] is not None and len(v["train_ratios"]) != num_corpora,
         "train_ratios", "train_prefix", f"give one ratio per prefix, {num_corpora} in all"),
        (v["synthetic_tag"] is not None and v["synthetic_prefix"] is None,
         "synthetic_tag", "synthetic_prefix", "there is no synthetic text to tag"),
        (v["subword_sampling"] and v["subword_option"] != "spm",
         "subword_sampling", "subword_option", "only SentencePiece can sample segmentations"),
        (v["text_pipeline"] == "moses" and v["subword_option"] == "spm",
         "text_pipeline", "subword_option", 'with moses, set it to "bpe" or ""'),
    ]
# fmt: on
