"""Sets of sentences by their paths."""

from aevnmt_tf.probing.probe_data import ProbeSet


def test_sets_by_their_paths(tmp_path, monkeypatch):
    """A folder may be written in several ways, and have an = in its name."""
    monkeypatch.chdir(tmp_path)
    parse = ProbeSet.parse
    assert parse("news=data/dev") == ProbeSet("news", "data/dev")
    grid = "runs/dropout=0.3/seed1/dev"
    assert parse(grid) == ProbeSet("dev", grid)
    assert parse(f"x={grid}") == ProbeSet("x", grid)
    words = (
        "dev",
        "./dev.translation",
        f"{tmp_path}/dev.translation.en",
        f"{tmp_path}//dev.en",
    )
    assert len({parse(f"x={word}").origin("en") for word in words}) == 1
