"""What translate and score do with an exported model: its signatures answer for each line.

An export fixes its decision rule and its number of draws. Only the form of the output can be
chosen.
"""

import abc
import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import export_folder
from aevnmt_tf.translator import line_batches
from aevnmt_tf.translator.corpus_jobs import CorpusJob, Row, Say, plain_text, score_text
from aevnmt_tf.translator.corpus_summaries import CorpusScores, UnknownWords

if TYPE_CHECKING:  # slow to import
    from aevnmt_tf.serving.servable import Servable

Outputs = dict[str, Any]  # of a row, by name


def newest_version(models: Sequence[str], *, refused: Iterable[str]) -> str:
    """Return the version to load; raise a UserError if flags do not fit an export.

    Args:
        models: The --model flags, one of which is an export.
        refused: The flags that were given although only runs support them.
    """
    if len(models) > 1:
        raise UserError(
            "an exported SavedModel cannot be part of an ensemble: export the ensemble, or "
            "give the runs."
        )
    for name in refused:
        raise UserError(
            f"{models[0]} is an exported SavedModel, which does not take --{name}: leave it "
            "out, or give the run."
        )
    return str(export_folder.newest(models[0]).resolve())


@dataclasses.dataclass(frozen=True)
class ExportJob(CorpusJob):
    """What was asked of one version of an exported model."""

    version: str  # its folder
    format: str

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the version; raises a UserError if there is none."""
        found = export_folder.read_manifest(Path(self.version))
        if not found:
            raise UserError(
                f"{self.version} has no {export_folder.MANIFEST}: it was not exported with "
                "`aevnmt export`."
            )
        return found

    @property
    @abc.abstractmethod
    def signature(self) -> str:
        """The name of the signature that answers."""

    def batch_size(self) -> int:
        """Return the infer_batch_size of the exported run."""
        return self.manifest["hparams"]["infer_batch_size"]

    def model_files(self) -> list[Path]:
        """Return the graph, and the index of the variables, which has their checksums."""
        version = Path(self.version)
        return [version / export_folder.MODEL_FILE, version / "variables" / "variables.index"]

    def load(self) -> "Servable":
        """Load the version; raise a UserError if it lacks the signature."""
        signatures = self.manifest["signatures"]
        if self.signature not in signatures:
            raise UserError(
                f"{self.version} has no signature {self.signature}; it has "
                f"{', '.join(signatures)}."
            )
        machine.tune_for_throughput()
        from aevnmt_tf.serving.servable import Servable

        return Servable(Path(self.version))

    def answers(
        self, model: "Servable", chunks: Iterator[tuple[int, list[Any]]], names: Sequence[str]
    ) -> Iterator[Outputs]:
        """Yield the outputs for each item of the chunks; `names` are those of its texts."""
        import numpy as np

        for _, chunk in chunks:
            columns = zip(*chunk, strict=True) if len(names) > 1 else [chunk]
            inputs = {
                name: np.array([text.encode() for text in texts], object)
                for name, texts in zip(names, columns, strict=True)
            }
            # Lines of similar length together, the longest first, as for runs.
            order = np.argsort(-model.count_words(inputs), kind="stable")
            most = line_batches.fitting_size(
                self.batch_size(), hypotheses=model.widths.get(self.signature, 1)
            )
            size = line_batches.even_size(len(chunk), most=most)
            batches = [order[first : first + size] for first in range(0, len(chunk), size)]

            def run(
                rows: np.ndarray, inputs: dict[str, np.ndarray] = inputs
            ) -> dict[str, np.ndarray]:
                return model.run(
                    self.signature, {k: texts[rows] for k, texts in inputs.items()}
                )

            found: dict[int, Outputs] = {}
            for rows, outputs in zip(batches, line_batches.run(run, batches), strict=True):
                for place, row in enumerate(rows):
                    found[row] = {name: values[place] for name, values in outputs.items()}
            yield from (found[row] for row in range(len(chunk)))


@dataclasses.dataclass(frozen=True)
class ExportTranslateJob(ExportJob):
    """Lines to translate; `n_best` is None for the best translation only."""

    n_best: int | None = None

    @property
    def signature(self) -> str:
        """The name of the signature that translates."""
        return "serving_default" if self.n_best is None else "nbest"

    def load(self) -> "Servable":
        """Load the version; raise a UserError if its n-best lists are too short."""
        longest = self.manifest["decoding"]["nbest"]["n_best"]
        if (self.n_best or 0) > longest:
            raise UserError(
                f"--n_best {self.n_best}: {self.version} was exported with --n_best {longest}."
            )
        return super().load()

    def begin(self, model: "Servable", write: Say, say: Say) -> None:
        """Say which text the model takes, unless it is raw."""
        source = model.text["source"]
        if source["form"] != "raw":
            say(f"the exported model takes {source['note']}")

    def summary(self, model: "Servable | None" = None) -> UnknownWords:
        """Return an empty summary, which stays empty: signatures do not count unknown words."""
        return UnknownWords()

    def results(self, model: "Servable", items: Any, **reading: Any) -> Iterator[Outputs]:
        """Return the outputs of the signature for each line."""
        chunks = line_batches.windows(items, batch_size=self.batch_size(), **reading)
        return self.answers(model, chunks, ["source"])

    def row(self, number: int, item: str, result: Outputs) -> Row:
        """Return the output for a line."""
        if self.n_best is None:
            found = [(result["translation"], result["score"])]
        else:
            from aevnmt_tf.serving.signatures import LOWEST  # slow to import

            found = list(zip(result["translations"], result["scores"], strict=True))
            is_there = [place == 0 or score > LOWEST for place, (_, score) in enumerate(found)]
            found = [pair for pair, there in zip(found, is_there, strict=True) if there]
        listed = [
            {"translation": text.decode(), "score": float(score)}
            for text, score in found[: self.n_best]
        ]
        if self.format == "text":
            return Row(plain_text(str(one["translation"]) for one in listed), {}, [])
        line = {"line": number, "source": item, **listed[0]}
        if len(listed) > 1:
            line["n_best"] = listed
        return Row(json.dumps(line, ensure_ascii=False), {}, [])


@dataclasses.dataclass(frozen=True)
class ExportScoreJob(ExportJob):
    """Pairs to score."""

    @property
    def signature(self) -> str:
        """The name of the signature that scores."""
        return "score"

    def begin(self, model: "Servable", write: Say, say: Say) -> None:
        """Write the names of the columns of a TSV file."""
        if self.format == "tsv":
            write("\t".join(self._names()))

    def summary(self, model: "Servable | None" = None) -> CorpusScores:
        """Return an empty summary."""
        return CorpusScores(samples=self.manifest["decoding"]["score_samples"])

    def results(self, model: "Servable", items: Any, **reading: Any) -> Iterator[Outputs]:
        """Return the outputs of the signature for each pair."""
        chunks = line_batches.windows(items, batch_size=self.batch_size(), **reading)
        return self.answers(model, chunks, ["source", "target"])

    def row(self, number: int, item: tuple[str, str], result: Outputs) -> Row:
        """Return the output for a pair."""
        values = {name: float(result[name]) for name in self._names()}
        return Row(score_text(self.format, number, item, values), values, [])

    def _names(self) -> list[str]:
        return list(self.manifest["signatures"][self.signature]["outputs"])
