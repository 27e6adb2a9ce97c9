"""What a setting's value may be, and which settings exclude each other."""

import difflib
import json
import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_SEARCHES = ("beam_width", "sampling_temperature")  # one of them at a time


class Clash(ValueError):
    """Two settings, `names`, that exclude each other."""

    def __init__(self, names: tuple[str, str], sentence: str):
        super().__init__(sentence)
        self.names = names


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The half-sentence that offers the nearest known word, or nothing."""
    # Case is ignored: kl_annealing_steps should find KL_annealing_steps.
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


@dataclass(frozen=True)
class Setting:
    """One setting: its name, type, default, help and the values that it takes.

    `also` lists values of another type; `many` says that the value is a list (True), or a
    single value or a list ("either").
    """

    name: str
    type: type
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    at_least: float | None = None
    above: float | None = None
    below: float | None = None
    also: tuple[Any, ...] = ()
    many: Any = False
    group: str = ""

    @property
    def nullable(self) -> bool:
        """Whether null is a value of this setting."""
        return self.default is None

    def describe(self) -> str:
        """The values allowed, in words: `a whole number of at least 1`."""
        if self.choices:
            words = " or ".join("null" if c is None else json.dumps(c) for c in self.choices)
        elif self.type is bool:
            words = "true or false"
        else:
            words = {int: "whole number", float: "number", str: "text"}[self.type]
            words = f"{words}s" if self.many is True else f"a {words}"
            limits = {"of at least": self.at_least, "above": self.above, "below": self.below}
            shown = [f"{word} {limit:g}" for word, limit in limits.items() if limit is not None]
            words = f"{words} {' and '.join(shown)}".rstrip()
        if self.many:
            words = f"a list of {words}" if self.many is True else f"{words} or a list of them"
        words += "".join(f" or {json.dumps(value)}" for value in self.also)
        return words + (" or null" if self.nullable and None not in self.choices else "")

    def check(self, value: Any) -> Any:
        """The value in the type of this setting; ValueError where it is none of its values."""
        if value is None and self.nullable:
            return None
        if any(type(value) is type(other) and value == other for other in self.also):
            return value
        if self.many and isinstance(value, (list, tuple)) and value:
            return tuple(self._check_one(item) for item in value)
        if self.many is True:
            # TF-NMT writes lists as text, too: "bleu,rouge".
            if self.type is not str or not isinstance(value, str) or not value.strip(","):
                raise ValueError(self._complaint(value))
            return tuple(self._check_one(item) for item in _split(value))
        return self._check_one(value)

    def read(self, text: str) -> Any:
        """What a flag's text would be in a file; it is still to be checked."""
        if text.lower() in ("null", "none") and (self.nullable or self.type is not str):
            return None
        if self.many and text.lstrip().startswith("["):
            try:
                return json.loads(text)
            except json.JSONDecodeError:
                raise ValueError(self._complaint(text)) from None
        if self.many and (self.many is True or "," in text):
            return [self._from_text(item) for item in _split(text)]
        return self._from_text(text)

    def _from_text(self, text: Any) -> Any:
        if self.type is bool or self.also:
            text = {"true": True, "false": False}.get(text.lower(), text)
        if self.type in (int, float) and isinstance(text, str):
            for number in (int, float):
                try:
                    return number(text)
                except ValueError:
                    pass
        return text

    def _check_one(self, value: Any) -> Any:
        if self.type is str and self.choices and isinstance(value, bool):
            value = json.dumps(value)  # jit_compile: true
        if self.type is float and type(value) is int and abs(value) < 1e300:
            value = float(value)
        if self.type is int and type(value) is float and value.is_integer():
            value = int(value)
        good = type(value) is self.type and (not self.choices or value in self.choices)
        if good and self.type in (int, float):
            good = (
                math.isfinite(value)
                and (self.at_least is None or value >= self.at_least)
                and (self.above is None or value > self.above)
                and (self.below is None or value < self.below)
            )
        if good and self.type is str and not self.choices:
            good = bool(value)
        if not good:
            raise ValueError(self._complaint(value))
        return value

    def _complaint(self, value: Any) -> str:
        texts = [choice for choice in self.choices if isinstance(choice, str)]
        hint = did_you_mean(value, texts) if isinstance(value, str) else ""
        shown = json.dumps(value, ensure_ascii=False, default=repr)
        return f"{self.name} must be {self.describe()}, not {shown}{hint or '.'}"


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def supersede(given: dict[str, Any], *, later: Mapping[str, Any]) -> None:
    """Forgets what a later file or flag rules out: a temperature ends beam search, a beam
    sampling."""
    for name, other in (_SEARCHES, _SEARCHES[::-1]):
        if later.get(name) and other not in later:
            given.pop(other, None)


def resolve(values: Mapping[str, Any], *, given: Container[str]) -> dict[str, Any]:
    """Fills in what follows from other settings; a Clash where two exclude each other.

    `given` holds the names that a file or a flag says, the rest are defaults.
    """
    values = dict(values)
    if values["sampling_temperature"] > 0 and "beam_width" not in given:
        values["beam_width"] = 0
    if values["text_pipeline"] == "moses" and "subword_option" not in given:
        values["subword_option"] = "bpe"
    if values["z_inference_from"] == "source_target" and values["r_train_mode"] is None:
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
    _refuse_model(values)
    _refuse_training(values)
    _refuse_decoding(values)
    _refuse_data(values)
    return values


def _exclude(values: Mapping[str, Any], first: str, second: str, advice: str) -> None:
    one, other = (json.dumps(values[name], ensure_ascii=False) for name in (first, second))
    sentence = f"{first} {one} and {second} {other} do not go together: {advice}."
    raise Clash((first, second), sentence)


def _refuse_model(v: Mapping[str, Any]) -> None:
    if v["z_inference_from"] == "source_only" and v["r_train_mode"] is not None:
        _exclude(
            v,
            "r_train_mode",
            "z_inference_from",
            "r(z|x) exists with source_target only, so set that or leave r_train_mode out",
        )
    if v["encoder_type"] == "bi" and v["num_encoder_layers"] % 2:
        _exclude(
            v,
            "encoder_type",
            "num_encoder_layers",
            "a bidirectional layer counts as 2, so the number of layers must be even",
        )
    if v["sos"] == v["eos"]:
        _exclude(v, "sos", "eos", "the two marks must differ")


def _refuse_training(v: Mapping[str, Any]) -> None:
    if v["avg_ckpts"] > v["num_keep_ckpts"]:
        _exclude(v, "avg_ckpts", "num_keep_ckpts", "only kept checkpoints can be averaged")
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
            f"such a search gives {most} at most, so widen the beam or sample",
        )


def _refuse_data(v: Mapping[str, Any]) -> None:
    if v["train_prefix"] is None:
        for name in ("dev_prefix", "synthetic_prefix", "train_ratios"):
            if v[name] is not None:
                advice = f"null is the demo corpus, so give train_prefix or leave {name} out"
                _exclude(v, name, "train_prefix", advice)
        for name in ("src", "tgt"):
            if v[name] not in ("en", "de"):
                _exclude(v, name, "train_prefix", "null is the demo corpus, en and de")
    else:
        for name in ("src", "tgt"):
            if v[name] is None:
                _exclude(v, "train_prefix", name, f"files are PREFIX.LANG, so give {name}, too")
    if v["src"] == v["tgt"]:
        _exclude(v, "src", "tgt", "source and target files would be the same")
    count = len(v["train_prefix"]) if isinstance(v["train_prefix"], tuple) else 1
    if v["train_ratios"] is not None and len(v["train_ratios"]) != count:
        advice = f"the number of ratios must be that of the prefixes, {count}"
        _exclude(v, "train_ratios", "train_prefix", advice)
    tag = v["synthetic_tag"]
    if tag is not None and v["synthetic_prefix"] is None:
        _exclude(
            v, "synthetic_tag", "synthetic_prefix", "there is nothing to put it in front of"
        )
    if tag is not None and (tag.split() != [tag] or tag in ("<unk>", v["sos"], v["eos"])):
        names = ("synthetic_tag", "synthetic_tag")
        shown = json.dumps(tag, ensure_ascii=False)
        raise Clash(names, f"synthetic_tag must be a word of its own, not {shown}.")
    if v["subword_sampling"] and v["subword_option"] != "spm":
        advice = "only SentencePiece knows more than one segmentation"
        _exclude(v, "subword_sampling", "subword_option", advice)
    if v["text_pipeline"] == "moses" and v["subword_option"] == "spm":
        _exclude(v, "text_pipeline", "subword_option", 'moses goes with "bpe" or ""')
