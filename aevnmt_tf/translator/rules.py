"""Decision rules, declared once: flags, help, refusals and the documents' table follow.

    python -m aevnmt_tf.translator.rules            (the tables, as Markdown)

A new option is one field of Decoding, and whoever runs it reads that field: decision.py in the
graph, mbr.py outside of it. This module does not import TensorFlow.
"""

import argparse
import dataclasses
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from aevnmt_tf.cli import settings, tables
from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.hparams import Hparams

LARGEST = 2**31 - 1  # what TensorFlow's 32-bit integers hold

RULES = {
    "beam": "beam search for the highest score: log-probability / length penalty",
    "greedy": "the most probable word at each step",
    "sample": "words drawn from the distribution of the model",
    "mbr": "minimum Bayes risk: the sample with the highest expected utility among all samples",
    "refine": "repeated beam search, each time with z from q(z|x, y) of the previous draft",
}
DRAWS_Z = ("mbr", "refine")  # rules that are about draws of z
BEAMS = ("beam", "refine")
SAMPLES = ("sample", "mbr")


def _option(default: Any, about: str, **more: Any) -> Any:
    """Return a field of Decoding with its declaration; `more` as in RuleOption."""
    return dataclasses.field(default=default, metadata={"help": about, **more})


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How to search: a decision rule and its options. `help` of a field says what it does."""

    search: str = _option(
        "beam",
        "decision rule; by default beam, greedy or sample, as the settings of the run say",
        choices=tuple(RULES),
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
        "prior", "where the first z comes from: the prior or r(z|x)", choices=("prior", "r"),
        rules=("refine",),
    )  # fmt: skip
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
        at_least=1,
        setting="tgt_max_len_infer",
    )
    force_length: int | None = _option(
        None, "force all translations to this many subwords, for benchmarks", at_least=1
    )

    @classmethod
    def of(
        cls, hp: Hparams, *, given: Mapping[str, Any] | None = None, **changes: Any
    ) -> "Decoding":
        """Return what a run's settings say, with changes.

        A change that this rule does not read is refused. So is a setting that was `given` for
        this search. 0 turns a rule's setting off.
        """
        for name in changes:
            if name not in OPTIONS:
                hint = did_you_mean(name, OPTIONS) or f"; there are {', '.join(OPTIONS)}."
                raise UserError(f"decoding has no option {name}{hint}")
        wants_beam = changes.get("search") in BEAMS and "beam_width" not in changes
        if hp.sampling_temperature > 0 and wants_beam:
            raise UserError(
                f"{changes['search']} search has no sampling_temperature, which is "
                f"{hp.sampling_temperature:g} here: give beam_width in its place."
            )
        kind = "beam" if hp.beam_width else "greedy"
        values = {
            "search": "sample" if hp.sampling_temperature > 0 else kind,
            "beam_width": hp.beam_width or 1,
            "length_penalty_weight": hp.length_penalty_weight,
            "coverage_penalty_weight": hp.coverage_penalty_weight,
            "n_best": hp.num_translations_per_input,
            "temperature": hp.sampling_temperature or 1.0,
            "max_length": hp.tgt_max_len_infer,
        }
        found = cls(**{**values, **changes})
        found._refuse_idle(given or {}, changes)
        return found

    def _refuse_idle(self, given: Mapping[str, Any], changes: Iterable[str]) -> None:
        """Raise a UserError about settings or changes that this rule does not read."""
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
                f"references aggregate has utility chrf alone, not {self.utility}: give "
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
        """How many translations the search finds at most; None: any number."""
        if self.search == "sample":
            return None
        found = {"greedy": 1, "mbr": self.num_samples}
        return found.get(self.search, self.beam_width) * self.num_z

    @property
    def in_graph(self) -> "Decoding":
        """The part of the rule inside the graph: only pairwise mbr chooses outside of it."""
        if self.search != "mbr" or self.references == "aggregate":
            return self
        # What matters to the choice alone goes back to its default: one trace for all of it.
        choice = {name: OPTIONS[name].default for name in ("num_samples", "utility")}
        return dataclasses.replace(self, search="sample", n_best=self.num_samples, **choice)

    @property
    def width(self) -> int:
        """How many hypotheses a search has alive."""
        if self.search in SAMPLES:
            return self._num_drawn // self.draws
        return 1 if self.search == "greedy" else self.beam_width

    @property
    def draws(self) -> int:
        """How many times a sentence is searched, with a z of its own each time."""
        if self.z != "sample":
            return 1
        return self._num_drawn if self.search in SAMPLES else self.num_z

    @property
    def _num_drawn(self) -> int:
        return self.num_samples if self.search == "mbr" else self.n_best

    def warning(self, hp: Hparams) -> str:
        """Return what to say about this rule with a run of these settings, if anything."""
        if self.search not in SAMPLES or not hp.label_smoothing or self._truncates:
            return ""
        return (
            f"this run was trained with label_smoothing {hp.label_smoothing:g}, which gives "
            "improbable words too much probability: samples are worse for it. Give --epsilon "
            "0.02, or train without label smoothing."
        )

    @property
    def _truncates(self) -> bool:
        return self.epsilon > 0 or self.top_p < 1 or self.top_k > 0


@dataclasses.dataclass(frozen=True)
class RuleOption(settings.Setting):
    """An option of decision rules.

    `rules` are those that read it (none: all do). `setting` is the run's setting that it
    follows unless it is given.
    """

    rules: tuple[str, ...] = ()
    setting: str = ""

    def is_for(self, rule: str) -> bool:
        """Return whether a decision rule reads this option."""
        return not self.rules or rule in self.rules

    def check(self, value: Any) -> Any:
        """Return the value in the type of this option; ValueError where it is none."""
        if self.type is int and type(value) is int and value > LARGEST:
            raise ValueError(f"{self.name} must be {LARGEST} or less, not {value}.")
        return super().check(value)


def _declared(field: "dataclasses.Field[Any]") -> RuleOption:
    hint = typing.get_type_hints(Decoding)[field.name]
    kinds = [kind for kind in typing.get_args(hint) or (hint,) if kind is not type(None)]
    return RuleOption(field.name, kinds[0], field.default, **field.metadata)


OPTIONS = {field.name: _declared(field) for field in dataclasses.fields(Decoding)}
# Options that are flags of every verb that translates; others follow settings of the run, which
# have flags themselves.
FLAGS = tuple(
    name
    for name, option in OPTIONS.items()
    if not option.setting and name != "force_length"
)  # fmt: skip

DRAWING = tuple(n for n, option in OPTIONS.items() if option.rules == SAMPLES)  # of words


def add_flags(
    parser: argparse._ActionsContainer,
    names: Iterable[str] = FLAGS,
    *,
    owner: str | None = None,
) -> None:
    """Add flags for options; their help starts with their rules, or with the `owner` given."""
    for name in names:
        option = OPTIONS[name]
        place = ", ".join(option.rules) if owner is None else owner
        about = f"{place}: {option.help}" if place else option.help
        settings.add_flag(parser, dataclasses.replace(option, help=about))


def given(args: argparse.Namespace, names: Iterable[str] = tuple(OPTIONS)) -> dict[str, Any]:
    """Return the options that were given as flags."""
    return {name: getattr(args, name) for name in names if name in vars(args)}


def markdown() -> str:
    """Return the rules and their options as Markdown tables."""
    rows = []
    for name, option in OPTIONS.items():
        rules = ", ".join(option.rules) or "all"
        default = f"`{option.setting}` of the run" if option.setting else ""
        default = default or ("" if option.nullable else settings.show(option.default))
        rows.append((name, rules, option.describe(), default, option.help))
    options = tables.markdown(("option", "rules", "values", "default", ""), rows)
    return f"{tables.markdown(('search', ''), RULES.items())}\n{options}".rstrip("\n")


if __name__ == "__main__":
    print(markdown())
