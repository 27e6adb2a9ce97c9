"""What probes found, as JSON and as files for TensorBoard's projector."""

import dataclasses
import math

import numpy as np

from aevnmt_tf.analysis import probing, projector
from aevnmt_tf.errors import UserError


def write_projector(folder, features, sentences, task):
    """Write the vectors of all sentences, with what is known of each.

    Args:
        folder: that TensorBoard will read.
        features: features.Features.
        sentences: probe_data.Sentences.
        task: probing.Task.
    """
    metadata = {
        task.name: _names(task, task.values),
        "set": sentences.sets,
        "line": sentences.lines,
        "part": ["held out" if out else "train" for out in task.held_out],
        "text": sentences.texts,
    }
    name = features.name.replace(" ", "_")
    try:
        projector.write(folder, vectors=features.values, metadata=metadata, name=name)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from None


def to_dict(results, task, *, sentences):
    """All that was found, for JSON: unrounded, and null for what is infinite.

    Args:
        results: of Result.
        task: Task.
        sentences: probe_data.Sentences.
    """
    places = np.flatnonzero(task.held_out).tolist()
    return {
        "target": task.name,
        "classes": task.classes,
        "sentences": len(sentences),
        "empty_lines": sentences.left_out,
        "train": int((~task.held_out).sum()),
        "held_out": len(places),
        "counts": probing.counts(task),
        "results": [_result(result, task) for result in results],
        "warnings": [warning for result in results for warning in result.warnings],
        "held_out_sentences": {
            "set": [sentences.sets[place] for place in places],
            "line": [sentences.lines[place] for place in places],
            "target": _names(task, task.test),
        },
    }


def _names(task, values):
    if task.classes is None:
        return np.asarray(values).tolist()
    return [task.classes[value] for value in values]


def _result(result, task):
    found = {
        "features": result.name,
        "dimensions": result.dimensions,
        "baseline": result.is_baseline,
        **{name: dataclasses.asdict(measure) for name, measure in result.measures.items()},
    }
    if task.classes is None:
        names = ("predicted", "predicted_low", "predicted_high")
        found |= dict(zip(names, result.predictions.tolist(), strict=True))
    else:
        chosen = result.predictions.argmax(axis=1)
        found["confusion"] = confusion(task.test, chosen, count=len(task.classes)).tolist()
        found["predicted"] = _names(task, chosen)
        found["probability"] = result.predictions.tolist()
    if result.posterior is not None:
        diagnostics, draws = result.posterior.diagnostics, result.posterior.draws
        found |= {
            "r_hat": diagnostics.r_hat if math.isfinite(diagnostics.r_hat) else None,
            "ess": diagnostics.ess,
            "divergences": draws.divergences,
            "step_size": draws.step_size,
            "acceptance": draws.acceptance,
            "leapfrogs": draws.leapfrogs,
            "seconds": draws.seconds,
        }
    return found


def confusion(labels, chosen, *, count):
    """How many sentences of each class (row) were taken for each class (column)."""
    table = np.zeros([count, count], int)
    np.add.at(table, (labels, chosen), 1)
    return table
