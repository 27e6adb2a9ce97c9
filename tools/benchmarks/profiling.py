"""Where the time goes: TensorFlow's profiler, summed by kind of work."""

import collections
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# The first pattern that matches an op's type decides; everything else is "element-wise".
KINDS = (
    ("random numbers", re.compile("Random")),
    ("optimizer", re.compile("Apply")),
    ("matrix products", re.compile("MatMul|Einsum")),
    ("softmax", re.compile("Softmax|LogSumExp")),
    (
        "moving data",
        re.compile(
            "Concat|Split|Slice|Stack|Pack|Gather|Scatter|TensorList|Transpose|Pad|Tile"
            "|Broadcast|Fill|Reverse|Select|Where|TopK|Identity|Copy"
        ),
    ),
)
# Ops that run other ops: their time is that of the ops inside.
CONTAINERS = re.compile("While|PartitionedCall|^If$|^StatelessIf|Case$|^_?Arg$|^_?Retval$")
LOOP = re.compile(r"(^|/)while(_\d+)?/")  # a scope that TensorFlow gives to a loop

# XLA's text of a module: an instruction, and those that launch no kernel.
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w\-]+)\(", re.MULTILINE)
FREE = {"parameter", "get-tuple-element", "tuple", "constant", "bitcast", "while"}


class Op(NamedTuple):
    """One execution of an op."""

    name: str  # with its scopes
    type: str
    seconds: float


def profile(step: Callable[[], object], *, steps: int) -> dict:
    """Run a step some times under the profiler and return the share of each kind of work.

    It should have run before, so that nothing is traced. The profiler slows down small ops, so
    the shares of loops are a little too high.
    """
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2)
        tf.profiler.experimental.start(folder, options)
        try:
            for _ in range(steps):
                step()
        finally:
            tf.profiler.experimental.stop()
        return shares(read(Path(folder)), steps=steps)


def read(folder: Path) -> list[Op]:
    """Return the ops that the profiler has recorded below a folder."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    ops = []
    for path in sorted(folder.rglob("*.xplane.pb")):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            names = {key: entry.name for key, entry in plane.event_metadata.items()}
            for event in (event for line in plane.lines for event in line.events):
                name, colon, kind = names[event.metadata_id].rpartition(":")
                is_op = colon and kind.isidentifier() and not name.endswith(":")
                if is_op and not CONTAINERS.search(kind):
                    ops.append(Op(name, kind, event.duration_ps / 1e12))
    return ops


def shares(ops: list[Op], *, steps: int) -> dict:
    """Return the share of time and the number of ops per step by place and kind of work."""
    seconds, counts = collections.Counter[str](), collections.Counter[str]()
    for op in ops:
        place = "loops" if LOOP.search(op.name) else "outside"
        name = f"{place}, {kind_of(op.type)}"
        seconds[name] += op.seconds
        counts[name] += 1
    total = sum(seconds.values())
    return {
        name: {"share": round(value / total, 4), "ops_per_step": round(counts[name] / steps)}
        for name, value in seconds.most_common()
    }


def kind_of(op_type: str) -> str:
    """Return what kind of work a type of op does."""
    return next((kind for kind, types in KINDS if types.search(op_type)), "element-wise")


def kernels(hlo: str) -> dict:
    """Count the kernels of a module that XLA has compiled.

    A GPU launches them one after the other, which bounds the time of a step from below.

    Args:
        hlo: the text of the optimised module.

    Returns:
        How many run once, and how many run in each iteration of each loop.
    """
    bodies = set(re.findall(r"body=%([\w.\-]+)", hlo))
    found = {"kernels_outside_loops": 0, "kernels_per_iteration": []}
    for computation in re.split(r"\n(?=%|ENTRY)", hlo):
        head = re.match(r"(ENTRY )?%([\w.\-]+)", computation)
        count = sum(name not in FREE for name in INSTRUCTION.findall(computation))
        if head and head[1]:
            found["kernels_outside_loops"] = count
        elif head and head[2] in bodies:
            found["kernels_per_iteration"].append(count)
    found["kernels_per_iteration"].sort()
    return found
