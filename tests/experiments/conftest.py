import json
from pathlib import Path

import pytest

from aevnmt_tf.experiments import experiment_plan as plans
from aevnmt_tf.experiments.plan_runs import PlanRuns
from aevnmt_tf.experiments.planned_run import TESTS


@pytest.fixture
def write_plan(tmp_path):
    """Writes a plan; keys in the call replace those of a small one."""

    def write(**changes):
        plan = {
            "out_dir": str(tmp_path / "out"),
            "seeds": [1, 2],
            "data": {"src": "en", "tgt": "de", "train_prefix": str(tmp_path / "train")},
            "settings": {"num_train_steps": 20},
            "tests": {"news": str(tmp_path / "test"), "dev": "@dev"},
            "systems": [
                {"name": "cond", "settings": {"model_type": "cond"}},
                {"name": "aevnmt", "settings": {"z_dim": 8}},
            ],
        }
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({**plan, **changes}))
        return path

    return write


@pytest.fixture
def make_runs(write_plan, tmp_path):
    """Runs of a plan that is written for them."""

    def make(*, overrides=None, seeds=None, only=None, **changes):
        plan = plans.read(write_plan(**changes))
        folders = (tmp_path / "runs", tmp_path / "out")
        return PlanRuns(plan, *folders, overrides=overrides or {}, seeds=seeds, only=only)

    return make


@pytest.fixture
def finish(tmp_path):
    """Makes a run look finished, with a dev BLEU and scores on test sets."""

    def write(run, *, bleu=10.0, kl=None, tests=None, seconds=30.0, reason=None, weights=""):
        run.hp.save(run.folder / "hparams.json")
        best = {"step": 20, "dev_bleu": bleu, **({} if kl is None else {"dev_kl": kl})}
        results = {
            "step": 20,
            "reason": reason or "num_train_steps (20) is reached",
            "best": best,
            "signatures": {"bleu": "dev signature"},
            "wall_time_seconds": seconds,
            "versions": {"aevnmt_tf": "0", "tensorflow": "2"},
        }
        (run.folder / "results.json").write_text(json.dumps(results))
        lines = [
            {"step": 10, "dev_bleu": bleu / 2},
            {"step": 20, "dev_bleu": bleu, "dev_kl": kl},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (run.folder / "metrics.jsonl").write_text(text)
        for name, (prefix, scores) in (tests or {}).items():
            for lang in ("en", "de"):
                Path(f"{prefix}.{lang}").touch()
            kept = {
                "prefix": prefix,
                "weights": weights,
                "files": run.checksums(prefix),
                "scores": {
                    metric: {"score": value, "signature": f"{metric}|sig"}
                    for metric, value in scores.items()
                },
            }
            (run.folder / TESTS).mkdir(exist_ok=True)
            (run.folder / TESTS / f"{name}.json").write_text(json.dumps(kept))

    return write
