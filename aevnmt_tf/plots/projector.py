"""Files for TensorBoard's embedding projector."""

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
        folder: A folder that TensorBoard reads, such as the logs of a run.
        vectors: [N, Z].
        metadata: Columns by name, N values each, such as corpus, length and text.
        name: Name of the vectors in the projector.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.tsv", "w", encoding="utf-8") as file:
        for vector in vectors:
            file.write("\t".join(f"{value:.6g}" for value in vector) + "\n")
    with open(folder / f"{name}_metadata.tsv", "w", encoding="utf-8") as file:
        # A header is required for two or more columns and forbidden for one.
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
