import importlib
from pathlib import Path

import pytest
import tensorflow as tf

ROOT = Path(__file__).parents[2]


@pytest.fixture
def profiling(monkeypatch):
    """The module, which is no part of the package."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("benchmarks.profiling")


def test_shares_by_hand(profiling):
    ops = [
        profiling.Op("a/while/body/b", "MatMul", 1.0),
        profiling.Op("while_3/body/b", "MatMul", 1.0),
        profiling.Op("whiletrue", "ConcatV2", 0.5),
        profiling.Op("c", "Tanh", 1.5),
    ]
    assert profiling.shares(ops, steps=2) == {
        "loops, matrix products": {"share": 0.5, "ops_per_step": 1},
        "outside, element-wise": {"share": 0.375, "ops_per_step": 0},
        "outside, moving data": {"share": 0.125, "ops_per_step": 0},
    }


def test_a_loop_of_products_is_found(profiling):
    """A loop of 7 products and an outer one, 3 times; the loop itself is not counted."""
    matrix = tf.random.stateless_normal([64, 64], seed=[1, 2]) / 8

    @tf.function
    def step():
        outer = tf.matmul(matrix, matrix)
        return tf.while_loop(
            lambda n, _: n < 7, lambda n, m: (n + 1, tf.matmul(m, matrix)), (0, outer)
        )[1]

    step()
    found = profiling.profile(lambda: step().numpy(), steps=3)
    assert found["loops, matrix products"]["ops_per_step"] == 7
    assert found["outside, matrix products"]["ops_per_step"] == 1
    assert sum(part["share"] for part in found.values()) == pytest.approx(1, abs=1e-3)


def test_kernels_of_a_compiled_loop(profiling):
    """One product and one copy of the counter outside; product, tanh and counter inside."""
    matrix = tf.ones([64, 64])

    @tf.function(jit_compile=True)
    def step(start):
        return tf.while_loop(
            lambda n, _: n < 7,
            lambda n, m: (n + 1, tf.tanh(tf.matmul(m, m) + 1.0)),
            (0, tf.matmul(start, start)),
        )[1]

    hlo = step.experimental_get_compiler_ir(matrix)(stage="optimized_hlo")
    found = profiling.kernels(hlo)
    assert found["kernels_per_iteration"] == [3]
    assert 1 <= found["kernels_outside_loops"] <= 2  # whether the counter is copied is XLA's
