"""Train and evaluate several systems with several seeds, and make one table of them.

    aevnmt experiment --plan hparams/plans/demo.json
    aevnmt experiment --plan F --out DIR --jobs 2 --seeds 1,2 --max_steps 100
    aevnmt experiment --plan F --dry_run           (what is there and what would be done)
    aevnmt experiment --plan F --table_only        (the table of what is there)

A plan is a JSON file that names systems, data, seeds, test sets and tables; those of the paper
are in hparams/plans. What is done is not done again: after a kill or Ctrl-C the same command
goes on. Every setting is a flag that holds for every run. Writes DIR/table.md, table.tex,
results.json and plots; DIR/logs has what each run printed.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path

from aevnmt_tf import command, flags, hparams
from aevnmt_tf.errors import UserError
from aevnmt_tf.hparams_checks import did_you_mean

FAILED = 1  # some run


def parser() -> command.Parser:
    """The command line."""
    p = command.Parser("experiment", __doc__)
    p.add_argument("--plan", required=True, metavar="FILE", help="as in hparams/plans/*.json")
    p.add_argument("--out", metavar="DIR", help="tables, plots and runs (default: the plan's)")
    p.add_argument("--runs", metavar="DIR", help="runs (default: the plan's, or OUT/runs)")
    p.add_argument("--jobs", type=flags.positive, default=1, metavar="N", help="at a time")
    p.add_argument("--only", type=_names, metavar="NAME,...", help="these, and what they need")
    p.add_argument("--seeds", type=_seeds, metavar="S,...", help="in place of the plan's")
    p.add_argument("--tests", type=_names, metavar="NAME,...", help="these test sets alone")
    p.add_argument("--dry_run", action="store_true", help="say what would be done")
    p.add_argument("--table_only", action="store_true", help="train nothing")
    programs = p.add_argument_group("METEOR and BEER, where the plan wants them")
    programs.add_argument("--meteor_jar", metavar="PATH", help="meteor-1.5.jar")
    programs.add_argument("--beer", metavar="PATH", help="beer_2.0, or the program beer in it")
    programs.add_argument("--java", default="java", metavar="PATH", help="default: java")
    hparams.add_flags(p, file=False)
    return p


def _names(words):
    return words.split(",")


def _seeds(words):
    seeds = [flags.seed(word) for word in words.split(",")]
    if len(set(seeds)) < len(seeds):
        raise argparse.ArgumentTypeError(f"{words} names a seed twice")
    return seeds


def run(args) -> int:
    """Run what is missing, write the table and return the exit code."""
    from aevnmt_tf.analysis import external_metrics
    from aevnmt_tf.experiments import plan as plans
    from aevnmt_tf.experiments import processes, tasks
    from aevnmt_tf.experiments.runs import Runs
    from aevnmt_tf.experiments.task import state

    plan = plans.read(args.plan)
    if args.tests is not None:
        plan = plan.with_tests(args.tests)
    out, folder = _folders(args, plan)
    runs = Runs(plan, folder, overrides=_overrides(args), seeds=args.seeds)
    for name in args.only or ():
        if name not in plan.systems:
            hint = did_you_mean(name, plan.systems)
            raise UserError(f"--only {name}: {args.plan} has no such system{hint}")
    programs = external_metrics.Programs(
        meteor_jar=args.meteor_jar, beer=args.beer, java=args.java, language="en"
    )
    programs.check(programs.names)
    runs.check()
    todo = tasks.make(runs, out=out, programs=programs, only=args.only)
    if args.dry_run:
        return _show(todo)
    for task in () if args.table_only else todo:
        if state(task) != "done":  # what a finished one was made from may be gone
            task.check()
    for name, flag in (("meteor", "--meteor_jar"), ("beer", "--beer")):
        if name in plan.metrics and name not in programs.names:
            _say(f"{name} is left out: give {flag} to have it")
    command_line = shlex.join(["python", "-m", "aevnmt_tf.experiment", *args.words])
    with processes.termination_is_interruption():
        try:
            return _run(args, runs, todo, out=out, programs=programs, words=command_line)
        except KeyboardInterrupt:
            _say(f"interrupted; the same command goes on from here: {command_line}")
            return command.INTERRUPTED


def _run(args, runs, todo, *, out, programs, words):
    from aevnmt_tf.experiments import processes, report, results, scheduler

    outcome = scheduler.Outcome()
    with processes.all_locked([out, runs.folder], report=_say) as locks:
        if not args.table_only:
            outcome = scheduler.Scheduler(
                todo, jobs=args.jobs, logs=out / "logs", report=_say, locks=locks
            ).run()
        found = results.collect(runs, programs=programs, command=words, only=args.only)
        written = report.write(found, runs, out=out)
    print(report.section(found), end="")
    _say(f"written: {', '.join(map(str, written))}")
    for name, why in outcome.failed.items():
        _say(f"{name} failed: {why}")
    if not outcome.is_good:
        _say(f"{len(outcome.failed)} failed; the same command tries them again")
    return 0 if outcome.is_good else FAILED


def _folders(args, plan):
    """Where tables go, and where runs are."""
    out = args.out or plan.out_dir
    if out is None:
        raise UserError(f"{args.plan} has no out_dir: give --out DIR")
    # Whoever chooses a place for the tables wants runs of their own, too.
    runs = args.runs or (None if args.out else plan.runs_dir) or os.path.join(out, "runs")
    return Path(os.path.normpath(out)), Path(os.path.normpath(runs))


def _overrides(args):
    given = hparams.overrides(args)
    for name, instead in (("out_dir", "--out"), ("random_seed", "--seeds")):
        if name in given:
            raise UserError(f"--{name} is set by the experiment: use {instead}")
    return given


def _show(todo):
    from aevnmt_tf.experiments.task import state

    for task in todo:
        print(f"{state(task):6} {task.name}")
    return 0


def _say(sentence):
    print(f"aevnmt experiment: {sentence}", file=sys.stderr, flush=True)


def main(argv=None) -> int:
    """`aevnmt experiment`."""
    p = parser()
    p.set_defaults(words=list(sys.argv[1:] if argv is None else argv))
    return command.main(run, parser=p, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
