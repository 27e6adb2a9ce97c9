"""What results.json says of the runs."""

from aevnmt_tf.experiments import collected_results

GRID = {
    "name": "cond",
    "settings": {"model_type": "cond"},
    "grid": {"dropout": [0.1, 0.2], "num_units": [4, 8]},
    "tests": ["dev"],
}


def system(runs, name="cond"):
    return runs.plan.systems[name]


def test_times_and_signatures_are_of_all_runs(make_runs, finish, tmp_path):
    """A search is work, too, and METEOR differs by language."""
    grid = {**GRID, "grid": {"dropout": [0.1, 0.2]}, "grid_seeds": [1], "tests": ["news"]}
    runs = make_runs(systems=[grid])
    for seed, dropout, seconds in [(1, 0.1, 10.0), (1, 0.2, 20.0), (2, 0.2, 40.0)]:
        run = runs.run(system(runs), seed=seed, point={"dropout": dropout})
        tests = {"news": (str(tmp_path / "test"), {"bleu": 1.0})}
        finish(run, bleu=dropout, seconds=seconds, tests=tests)
    path = run.folder / "tests" / "news.json"
    path.write_text(path.read_text().replace("bleu|sig", "bleu|other"))
    found = collected_results.collect(runs, provenance={})
    assert found["signatures"] == {"bleu": "bleu|sig; bleu|other"}
    assert found["trained_runs"] == 3 and found["wall_time_seconds"] == 70.0
