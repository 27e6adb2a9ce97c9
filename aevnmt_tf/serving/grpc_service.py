"""PredictionService and ModelService of TensorFlow Serving, with its own stubs."""

import asyncio
from collections.abc import Callable

import grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from aevnmt_tf.serving import model_protos, proto_tensors, status
from aevnmt_tf.serving.limits import Limits
from aevnmt_tf.serving.servable import Signature
from aevnmt_tf.serving.status import RequestError, invalid
from aevnmt_tf.serving.versions import Versions

# Longer messages are cut, as TensorFlow Serving does: they travel in a header.
LONGEST_MESSAGE = 1024
# Replies with more values are written by another thread than the event loop's.
LARGE_REPLY = 4096


def server(
    versions: Versions, *, limits: Limits, report: Callable[[str], None]
) -> grpc.aio.Server:
    """A gRPC server for a model, not started yet; to be called in a running event loop."""
    options = [
        ("grpc.max_receive_message_length", limits.max_request_bytes),
        ("grpc.max_send_message_length", -1),
        # A second server on the same port would get half of the requests.
        ("grpc.so_reuseport", 0),
    ]
    made = grpc.aio.server(options=options)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(versions, limits=limits, report=report), made
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(versions, report=report), made
    )
    return made


def _with_status(method):
    """Turns exceptions of a method into gRPC's status."""

    async def call(self, request, context):
        try:
            return await method(self, request)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            problem = status.of(error)
            if not isinstance(error, RequestError) or error.is_ours:
                self.report(f"{method.__name__}: {type(error).__name__}: {error}")
        message = problem.message
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]}...TRUNCATED"
        await context.abort(grpc.StatusCode[problem.code], message)

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata; there is nothing to classify or to regress."""

    def __init__(self, versions: Versions, *, limits: Limits, report: Callable[[str], None]):
        self.report = report
        self._versions = versions
        self._limits = limits

    @_with_status
    async def Predict(self, request):
        """Runs a signature."""
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        with self._versions.using(**_which(request.model_spec)) as version:
            signature = version.servable.signature(request.model_spec.signature_name)
            wanted = _wanted(signature, request.output_filter)
            inputs = proto_tensors.to_arrays(request.inputs, signature, limits=self._limits)
            rows = signature.check(inputs)
            self._limits.check(inputs)
            future = version.submit(signature.name, inputs, rows=rows)
            outputs = await asyncio.wrap_future(future)
        spec = model_protos.spec(
            request.model_spec.name, version.number, signature=signature.name
        )
        outputs = {name: outputs[name] for name in wanted}
        if sum(array.size for array in outputs.values()) > LARGE_REPLY:
            return await asyncio.to_thread(_response, spec, outputs, signature)
        return _response(spec, outputs, signature)

    @_with_status
    async def GetModelMetadata(self, request):
        """Gives the signatures."""
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != "signature_def":
                raise invalid(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        with self._versions.using(**_which(request.model_spec)) as version:
            name = request.model_spec.name
            response.model_spec.CopyFrom(model_protos.spec(name, version.number))
            response.metadata["signature_def"].Pack(model_protos.signatures(version))
        return response

    @_with_status
    async def Classify(self, request):
        """No signature does this."""
        raise status.no_such_method("classify")

    @_with_status
    async def Regress(self, request):
        """No signature does this."""
        raise status.no_such_method("regress")

    @_with_status
    async def MultiInference(self, request):
        """No signature does this."""
        raise status.no_such_method("classify")


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus; what is served is changed by writing a new version."""

    def __init__(self, versions: Versions, *, report: Callable[[str], None]):
        self.report = report
        self._versions = versions

    @_with_status
    async def GetModelStatus(self, request):
        """Gives the state of one version or of all."""
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        which = _which(request.model_spec)
        if label := which.pop("label"):
            raise invalid(f"Unrecognized servable version label: {label}")
        return model_protos.status(self._versions.states(**which))

    @_with_status
    async def HandleReloadConfigRequest(self, request):
        """The folder is fixed when the server is started."""
        raise RequestError("UNIMPLEMENTED", "the model is chosen with --export_dir")


def _response(spec, outputs, signature: Signature) -> predict_pb2.PredictResponse:
    response = predict_pb2.PredictResponse(model_spec=spec)
    for name, array in outputs.items():
        proto = proto_tensors.to_proto(array, signature.outputs[name].dtype)
        response.outputs[name].CopyFrom(proto)
    return response


def _which(model_spec) -> dict:
    number = model_spec.version.value if model_spec.HasField("version") else None
    return {"name": model_spec.name, "number": number, "label": model_spec.version_label}


def _wanted(signature: Signature, output_filter) -> list[str]:
    """The outputs that a request asks for; all where it names none."""
    seen: set[str] = set()
    for name in output_filter:
        if name not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {name} Outputs expected to be in "
                f"the set {{{','.join(signature.outputs)}}}."
            )
        if name in seen:
            raise invalid(f"duplicate output tensor alias: {name}")
        seen.add(name)
    return list(output_filter) or list(signature.outputs)
