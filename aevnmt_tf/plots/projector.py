"""TensorBoard's embedding projector, fed from files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

CONFIG = "projector_config.pbtxt"


def write(
    folder: str | Path,
    *,
    vectors: Iterable[Iterable[float]],
    metadata: Mapping[str, Sequence[object]],
    name: str = "z",
) -> Path:
    """Write vectors for the projector; return the folder.

    Args:
        folder: a folder that TensorBoard reads (a run's logs).
        vectors: [N, Z] numbers.
        metadata: columns by name, N values each, such as corpus, length and text.
        name: what the projector calls them.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.tsv", "w", encoding="utf-8") as file:
        for vector in vectors:
            file.write("\t".join(f"{value:.6g}" for value in vector) + "\n")
    with open(folder / f"{name}_metadata.tsv", "w", encoding="utf-8") as file:
        # A single column must have no header; two or more must have one.
        if len(metadata) > 1:
            file.write("\t".join(metadata) + "\n")
        for values in zip(*metadata.values(), strict=True):
            file.write("\t".join(_cell(value) for value in values) + "\n")
    (folder / CONFIG).write_text(
        "embeddings {\n"
        f'  tensor_name: "{name}"\n'
        f'  tensor_path: "{name}.tsv"\n'
        f'  metadata_path: "{name}_metadata.tsv"\n'
        "}\n",
        encoding="utf-8",
    )
    return folder


def _cell(value: object) -> str:
    return " ".join(str(value).split()) or "-"
