"""Decision rules and their options, declared once: flags, help and checks are derived.

A new option is one field of Decoding. decision.py reads it in the graph, mbr.py outside of it.
This module does not import TensorFlow.
"""

import argparse
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from aevnmt_tf.cli import settings
from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.hparams import Hparams

LARGEST = 2**31 - 1  # the largest 32-bit integer

RULES = ("beam", "greedy", "sample", "mbr", "refine")  # see docs/decoding.md
DRAWS_Z = ("mbr", "refine")  # rules that sample z by default
BEAMS = ("beam", "refine")
SAMPLES = ("sample", "mbr")


def _option(default: Any, help: str, **values: Any) -> Any:
    """Declare an option, of the type of its default unless `type` is given; see RuleOption."""
    return settings.option(values.pop("type", type(default)), default, help, **values)


@dataclasses.dataclass(frozen=True)
class Decoding:
    """A decision rule and its options."""

    search: str = _option(
        "beam",
        "decision rule; by default beam, greedy or sample, as the settings of the run say",
        choices=RULES,
    )
    beam_width: int = _option(10, "beam width", at_least=1, rules=BEAMS, setting="beam_width")
    length_penalty_weight: float = _option(
        1.0,
        "w in score = log P(y|x, z) / ((5 + length) / 6) ** w",
        rules=("beam", "greedy", "sample", "refine"),
        setting="length_penalty_weight",
    )
    coverage_penalty_weight: float = _option(
        0.0,
        "w in w sum_i log(min(1, sum_j a_ij)), added to the score (GNMT)",
        at_least=0,
        rules=BEAMS,
        setting="coverage_penalty_weight",
    )
    n_best: int = _option(
        1, "translations per line", at_least=1, setting="num_translations_per_input"
    )
    z: str | None = _option(
        None,
        "z to translate with: the mean of q(z|x) (of r(z|x) if the model has one), a sample "
        "from it, or zero (default: mean; for mbr and refine: sample)",
        type=str,
        choices=("mean", "sample", "zero"),
    )
    num_z: int = _option(
        1,
        "with --z sample: draws of z per line; the best translations of all draws are kept",
        at_least=1,
        rules=("beam", "greedy", "refine"),
    )
    num_samples: int = _option(
        30, "number of samples to choose from", at_least=1, rules=("mbr",)
    )
    utility: str = _option(
        "chrf",
        "sentence-level score to maximise on average over the samples",
        choices=("chrf", "bleu"),
        rules=("mbr",),
    )
    references: str = _option(
        "pairwise",
        "compare each sample with every sample, or with the average of their n-gram counts "
        "(aggregate; chrf only, faster)",
        choices=("pairwise", "aggregate"),
        rules=("mbr",),
    )
    refine_steps: int = _option(
        2, "number of searches after the first draft", at_least=0, rules=("refine",)
    )
    refine_start: str = _option(
        "prior",
        "where the first z comes from: the prior or r(z|x)",
        choices=("prior", "r"),
        rules=("refine",),
    )
    temperature: float = _option(
        1.0,
        "sampling temperature: divides the logits",
        above=0,
        rules=SAMPLES,
        setting="sampling_temperature",
    )
    top_k: int = _option(
        0, "sample from the K most probable words; 0: from all", at_least=0, rules=SAMPLES
    )
    top_p: float = _option(
        1.0,
        "nucleus sampling: sample from the smallest set of words with this total probability",
        above=0,
        at_most=1,
        rules=SAMPLES,
    )
    epsilon: float = _option(
        0.0,
        "epsilon sampling: sample from the words with at least this probability, such as 0.02",
        at_least=0,
        at_most=1,
        rules=SAMPLES,
    )
    max_length: int | None = _option(
        None,
        "maximum length of a translation (default: 2 x the source length + 10)",
        type=int,
        at_least=1,
        setting="tgt_max_len_infer",
    )
    force_length: int | None = _option(
        None,
        "force all translations to this many subwords, for benchmarks",
        type=int,
        at_least=1,
    )

    @classmethod
    def of(
        cls, hp: Hparams, *, given: Mapping[str, Any] | None = None, **changes: Any
    ) -> "Decoding":
        """Return the decision rule that the settings of a run describe, with changes.

        Args:
            hp: The settings of the run.
            given: The settings that the user has given for this search. One that the rule does
                not use is refused.
            **changes: Options that differ from the settings; refused in the same way.
        """
        for name in changes:
            if name not in OPTIONS:
                hint = did_you_mean(name, OPTIONS) or f"; valid are {', '.join(OPTIONS)}."
                raise UserError(f"decoding has no option {name}{hint}")
        wants_beam = changes.get("search") in BEAMS and "beam_width" not in changes
        if hp.sampling_temperature > 0 and wants_beam:
            raise UserError(
                f"{changes['search']} search has no sampling_temperature, which is "
                f"{hp.sampling_temperature:g} here: give beam_width in its place."
            )
        values = {n: getattr(hp, o.setting) for n, o in OPTIONS.items() if o.setting}
        kind = "beam" if hp.beam_width else "greedy"
        values["search"] = "sample" if hp.sampling_temperature > 0 else kind
        # 0 turns beam search or sampling off.
        values["beam_width"] = hp.beam_width or 1
        values["temperature"] = hp.sampling_temperature or 1.0
        found = cls(**{**values, **changes})
        found._refuse_idle(given or {}, changes)
        return found

    def _refuse_idle(self, given: Mapping[str, Any], changes: Iterable[str]) -> None:
        """Raise a UserError for settings or changes that this rule does not use."""
        option_of = {option.setting: option for option in OPTIONS.values() if option.setting}
        for name in ("beam_width", "sampling_temperature"):
            if given.get(name) == 0 and self.search in option_of[name].rules:
                raise UserError(
                    f"{name} 0 means no {self.search} search: give one above 0, or no search."
                )
        named = {name: option_of.get(name) for name, value in given.items() if value}
        for name, option in (named | {name: OPTIONS[name] for name in changes}).items():
            if option is not None and not option.is_for(self.search):
                raise UserError(
                    f"{name} is for {' or '.join(option.rules)} search, and this is "
                    f"{self.search} search: give search {option.rules[0]}, or leave {name} out."
                )

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            try:
                object.__setattr__(self, name, option.check(getattr(self, name)))
            except ValueError as error:
                raise UserError(str(error)) from None
        if self.z is None:
            object.__setattr__(self, "z", "sample" if self.search in DRAWS_Z else "mean")
        if self.num_z > 1 and not (self.z == "sample" and OPTIONS["num_z"].is_for(self.search)):
            raise UserError("num_z above 1 needs z sample and beam, greedy or refine search.")
        if self.search == "refine" and self.z == "zero":
            raise UserError("refine search needs a z to start from: set z to sample or mean.")
        if self.references == "aggregate" and self.utility != "chrf":
            raise UserError(
                f"references aggregate supports only utility chrf, not {self.utility}: give "
                "references pairwise, or utility chrf."
            )
        if self.most is not None and self.n_best > self.most:
            larger = "num_samples" if self.search == "mbr" else "beam_width"
            raise UserError(
                f"n_best {self.n_best} is more than {self.search} search finds: give a larger "
                f"{larger}, or search sample."
            )

    @property
    def most(self) -> int | None:
        """The maximum number of translations that the search finds; None: any number."""
        if self.search == "sample":
            return None
        found = {"greedy": 1, "mbr": self.num_samples}
        return found.get(self.search, self.beam_width) * self.num_z

    @property
    def in_graph(self) -> "Decoding":
        """What to run inside the graph: for pairwise mbr, only the sampling."""
        if self.search != "mbr" or self.references == "aggregate":
            return self
        # Options of the choice get their defaults, so that all choices share one trace.
        choice = {name: OPTIONS[name].default for name in ("num_samples", "utility")}
        return dataclasses.replace(self, search="sample", n_best=self.num_samples, **choice)

    @property
    def width(self) -> int:
        """The number of hypotheses per row during the search."""
        if self.search in SAMPLES:
            return self._num_drawn // self.draws
        return 1 if self.search == "greedy" else self.beam_width

    @property
    def draws(self) -> int:
        """The number of searches per sentence, each with its own draw of z."""
        if self.z != "sample":
            return 1
        return self._num_drawn if self.search in SAMPLES else self.num_z

    @property
    def _num_drawn(self) -> int:
        return self.num_samples if self.search == "mbr" else self.n_best

    def warning(self, hp: Hparams) -> str:
        """Return a warning about this rule for a run with these settings, or ""."""
        truncates = self.epsilon > 0 or self.top_p < 1 or self.top_k > 0
        if self.search not in SAMPLES or not hp.label_smoothing or truncates:
            return ""
        return (
            f"this run was trained with label_smoothing {hp.label_smoothing:g}, which gives "
            "improbable words too much probability and makes samples worse. Give --epsilon "
            "0.02, or train without label smoothing."
        )


@dataclasses.dataclass(frozen=True)
class RuleOption(settings.Setting):
    """An option of decision rules.

    `rules` are those that use it (empty: all). `setting` is the setting of the run that
    provides its default.
    """

    rules: tuple[str, ...] = ()
    setting: str = ""

    def is_for(self, rule: str) -> bool:
        """Return whether a decision rule uses this option."""
        return not self.rules or rule in self.rules

    def check(self, value: Any) -> Any:
        """Return the value in the type of this option; raise a ValueError if it is invalid."""
        if self.type is int and type(value) is int and value > LARGEST:
            raise ValueError(f"{self.name} must be {LARGEST} or less, not {value}.")
        return super().check(value)


OPTIONS = {
    field.name: RuleOption(field.name, default=field.default, **field.metadata)
    for field in dataclasses.fields(Decoding)
}
# Flags of every verb that translates. Options that follow a setting have the setting's flag.
FLAGS = tuple(n for n, o in OPTIONS.items() if not o.setting and n != "force_length")
DRAWING = tuple(n for n, o in OPTIONS.items() if o.rules == SAMPLES)  # how words are sampled


def add_flags(
    parser: argparse._ActionsContainer,
    names: Iterable[str] = FLAGS,
    *,
    owner: str | None = None,
) -> None:
    """Add flags for options; their help starts with their rules, or with `owner`."""
    for name in names:
        option = OPTIONS[name]
        place = ", ".join(option.rules) if owner is None else owner
        about = f"{place}: {option.help}" if place else option.help
        settings.add_flag(parser, dataclasses.replace(option, help=about))


def given(args: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the named options that the command line gives."""
    return {name: getattr(args, name) for name in names if name in vars(args)}
