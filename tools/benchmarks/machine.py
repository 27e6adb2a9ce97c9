"""What all benchmarks say about the machine they ran on."""

import os
import resource
import subprocess
import sys
import time

LIMIT = "TF_NUM_INTRAOP_THREADS"


def gemm_gflops() -> float:
    """GFLOP/s of the best of some float32 products [1024, 1024] x [1024, 8192].

    And of some with 8000 columns: rows that are a power of two long collide in the caches of
    some processors, where the first alone would be half of what the machine can do.

    Of all cores, also where this process computes an operation with one: then in a process of
    its own.
    """
    if LIMIT not in os.environ:
        return max(_gemm_gflops(columns) for columns in (8192, 8000))
    done = subprocess.run(
        [sys.executable, __file__],
        env={name: value for name, value in os.environ.items() if name != LIMIT},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def _gemm_gflops(columns: int, *, repeats: int = 5) -> float:
    import tensorflow as tf

    rows, inner = 1024, 1024
    left = tf.random.stateless_normal([rows, inner], seed=[1, 2])
    right = tf.random.stateless_normal([inner, columns], seed=[3, 4])

    @tf.function
    def multiply():
        # One number leaves the device: reading it waits for the product.
        return tf.matmul(left, right)[0, 0]

    multiply().numpy()
    best = min(_seconds(lambda: multiply().numpy()) for _ in range(repeats))
    return 2 * rows * inner * columns / best / 1e9


def _seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory_mb() -> float:
    """The most memory this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def description() -> dict:
    """Versions, devices, cores, how busy the machine is and its GEMM speed."""
    import tensorflow as tf

    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return {
        "tensorflow": tf.__version__,
        "cores": num_cores(),
        "gpus": gpus,
        "load": round(os.getloadavg()[0], 2),
        "gemm_gflops": round(gemm_gflops(), 1),
    }


if __name__ == "__main__":
    print(gemm_gflops())
