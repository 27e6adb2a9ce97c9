"""What both protocols say about a model and its versions."""

from collections.abc import Iterable

from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from aevnmt_tf.serving.status import CODES
from aevnmt_tf.serving.versions import Version

_NUMBERS = {"OK": 0, **{name: number for number, name in CODES.items()}}


def spec(name: str, number: int, *, signature: str = "") -> model_pb2.ModelSpec:
    """Return which model and version have answered."""
    found = model_pb2.ModelSpec(name=name, signature_name=signature)
    found.version.value = number
    return found


def status(versions: Iterable[Version]) -> get_model_status_pb2.GetModelStatusResponse:
    """Return the state of each version."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in versions:
        entry = response.model_version_status.add(
            version=version.number,
            state=get_model_status_pb2.ModelVersionStatus.State.Value(version.state),
        )
        entry.status.error_code = _NUMBERS[version.error_code]
        entry.status.error_message = version.error_message
    return response


def signatures(version: Version) -> get_model_metadata_pb2.SignatureDefMap:
    """Return the signatures of a version."""
    found = get_model_metadata_pb2.SignatureDefMap()
    for name, definition in version.servable.signature_defs.items():
        found.signature_def[name].CopyFrom(definition)
    return found
