"""Train and evaluate several systems with several seeds, and write the results as a table.

    aevnmt experiment --plan hparams/plans/demo.json
    aevnmt experiment --plan F --out DIR --jobs 2 --seeds 1,2 --max_steps 100
    aevnmt experiment --plan F --dry_run           (show what exists and what would be done)
    aevnmt experiment --plan F --table_only        (write the tables of finished runs)

A plan is a JSON file that names systems, data, seeds, test sets and tables. The plans of the
paper are in hparams/plans. Finished runs are not repeated: after a kill or Ctrl-C, the same
command continues. Every setting is a flag that applies to all runs. Writes DIR/table.md,
table.tex, results.json and plots. DIR/logs has the output of each run.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from aevnmt_tf import hparams
from aevnmt_tf.cli import command, flags, settings
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation.external_metrics import Programs
from aevnmt_tf.experiments import collected_results, experiment_plan, jobs, processes
from aevnmt_tf.experiments import result_pages as pages
from aevnmt_tf.experiments.plan_keys import ExperimentPlan, must_know
from aevnmt_tf.experiments.plan_runs import PlanRuns
from aevnmt_tf.experiments.scheduler import Job, JobOutcomes, Scheduler, state

FAILED = 1  # exit code if a run failed


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("experiment", __doc__)
    p.add_argument(
        "--plan",
        required=True,
        metavar="FILE",
        help="plan file, such as hparams/plans/demo.json",
    )
    p.add_argument(
        "--out", metavar="DIR", help="folder for tables, plots and runs (default: the plan's)"
    )
    p.add_argument(
        "--runs", metavar="DIR", help="folder for the runs (default: the plan's, or OUT/runs)"
    )
    p.add_argument(
        "--jobs", type=flags.positive, default=1, metavar="N", help="number of concurrent runs"
    )
    p.add_argument(
        "--only", type=_names, metavar="NAME,...", help="run these systems and what they need"
    )
    p.add_argument(
        "--seeds", type=_seeds, metavar="S,...", help="seeds to use instead of the plan's"
    )
    p.add_argument(
        "--tests", type=_names, metavar="NAME,...", help="evaluate these test sets only"
    )
    p.add_argument("--dry_run", action="store_true", help="show what would be done")
    p.add_argument(
        "--table_only", action="store_true", help="write tables of finished runs, train nothing"
    )
    settings.add_flags(p, Programs)
    hparams.add_flags(p, file=False)
    return p


def _names(words: str) -> list[str]:
    return words.split(",")


def _seeds(words: str) -> list[int]:
    seeds = [flags.seed(word) for word in words.split(",")]
    if len(set(seeds)) < len(seeds):
        raise argparse.ArgumentTypeError(f"{words} names a seed twice.")
    return seeds


def run(args: argparse.Namespace) -> int:
    """Run what is missing, write the tables and return the exit code."""
    runs = _runs(args)
    todo = jobs.make(runs)
    faults = [] if args.table_only and not args.dry_run else _faults(todo)
    if args.dry_run:
        for job in todo:
            print(f"{state(job):6} {job.name}")
        for sentence in faults:
            _say(sentence)
        return command.USER_ERROR if faults else 0
    if faults:
        raise UserError(faults[0])
    for name, flag in (("meteor", "--meteor_jar"), ("beer", "--beer")):
        if name in runs.plan.metrics and name not in runs.programs.names:
            _say(f"{name} is left out: give {flag} to include it")
    command_line = shlex.join(["python", "-m", "aevnmt_tf.experiment", *args.words])
    with processes.termination_is_interruption():
        try:
            return _run(args, runs, todo, command_line)
        except KeyboardInterrupt:
            _say(f"interrupted; the same command continues from here: {command_line}")
            return command.INTERRUPTED


def _runs(args: argparse.Namespace) -> PlanRuns:
    """Return the runs that the command line asks for, checked."""
    plan = experiment_plan.read(args.plan)
    if args.tests is not None:
        plan = plan.with_tests(args.tests)
    must_know(args.only, plan.systems, what="system", where=f"--only, {args.plan}: ")
    overrides = hparams.overrides(args)
    for name, instead in (("out_dir", "--out"), ("random_seed", "--seeds")):
        if name in overrides:
            raise UserError(f"--{name} is set by the experiment: use {instead}.")
    out, folder = _folders(args, plan)
    programs = Programs(**settings.given(args, Programs), language="en")
    programs.check(programs.names)
    runs = PlanRuns(plan, folder, out, overrides, args.seeds, args.only, programs)
    runs.check()
    return runs


def _folders(args: argparse.Namespace, plan: ExperimentPlan) -> tuple[Path, Path]:
    """Return the folder of tables and the folder of runs."""
    out = args.out or plan.out_dir
    if out is None:
        raise UserError(f"{args.plan} has no out_dir: give --out DIR.")
    # With --out, the runs are separate from those that plans share.
    runs = args.runs or (None if args.out else plan.runs_dir) or os.path.join(out, "runs")
    return Path(os.path.normpath(out)), Path(os.path.normpath(runs))


def _faults(todo: Sequence[Job]) -> list[str]:
    """Return why jobs cannot run; the files of a job that is done may be gone."""
    found: dict[str, None] = {}
    for job in todo:
        try:
            if state(job) != "done":
                job.check()
        except UserError as error:
            found[str(error)] = None
    return list(found)


def _run(
    args: argparse.Namespace, runs: PlanRuns, todo: Sequence[Job], command_line: str
) -> int:
    outcome = JobOutcomes()
    with processes.all_held([runs.out, runs.folder], report=_say) as locks:
        if not args.table_only:
            outcome = Scheduler(
                todo, at_once=args.jobs, logs=runs.out / "logs", report=_say, locks=locks
            ).run()
        made = collected_results.provenance(
            runs.out / pages.RESULTS, command=command_line, is_new=bool(outcome.done)
        )
        results = collected_results.collect(runs, provenance=made)
        written = pages.write(results, runs)
    print(pages.section(results), end="")
    _say(f"written: {', '.join(map(str, written))}")
    for name, why in outcome.failed.items():
        _say(f"{name} failed: {why}")
    if not outcome.is_good:
        _say(f"{len(outcome.failed)} failed; the same command tries them again")
    return 0 if outcome.is_good else FAILED


def _say(sentence: str) -> None:
    print(f"aevnmt experiment: {sentence}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """`aevnmt experiment`."""
    p = parser()
    p.set_defaults(words=list(sys.argv[1:] if argv is None else argv))
    return command.main(run, parser=p, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
