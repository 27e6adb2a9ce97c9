"""PredictionService and ModelService of TensorFlow Serving, with its own stubs."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from aevnmt_tf.serving import access, predictions, protos, status
from aevnmt_tf.serving.access_log import AccessLog, LoggedRequest
from aevnmt_tf.serving.servable import ServedSignature
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import Report, RequestError, invalid
from aevnmt_tf.serving.versions import Versions

# Longer messages are cut, as TensorFlow Serving does: they travel in a header.
LONGEST_MESSAGE = 1024
# Connections are closed after so much silence, and when they are so old; clients open new ones.
IDLE_SECONDS, OLDEST_SECONDS = 75, 600
Context = Any  # grpc.aio.ServicerContext, which has no types
SERVICES = (
    prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name,
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
)


class GrpcServer:
    """A gRPC server for a model; to be made in a running event loop."""

    def __init__(
        self,
        versions: Versions,
        *,
        options: ServerOptions,
        log: AccessLog,
        report: Report,
        max_connections: int,
        token: bytes | None = None,
    ):
        self._server = grpc.aio.server(
            interceptors=[access.TokenInterceptor(token)] if token else [],
            options=[
                ("grpc.max_receive_message_length", options.max_request_bytes),
                ("grpc.max_send_message_length", -1),
                # A second server on the same port would get half of the requests.
                ("grpc.so_reuseport", 0),
                # What silent and stalled clients can hold, and for how long.
                ("grpc.max_allowed_incoming_connections", max_connections),
                ("grpc.server_handshake_timeout_ms", round(1000 * options.read_timeout)),
                ("grpc.max_connection_idle_ms", 1000 * IDLE_SECONDS),
                ("grpc.max_connection_age_ms", 1000 * OLDEST_SECONDS),
                ("grpc.max_connection_age_grace_ms", round(1000 * options.request_timeout)),
            ],
            maximum_concurrent_rpcs=options.max_connections,
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(versions, options=options, log=log, report=report), self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(versions, report=report), self._server
        )
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    def listen(self, address: str, tls: tuple[bytes, bytes] | None) -> int:
        """Return the port it listens on; 0 where that cannot be.

        Args:
            address: host and port.
            tls: key and certificate.
        """
        try:
            if tls is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, grpc.ssl_server_credentials([tls]))
        except RuntimeError:
            return 0

    async def start(self) -> None:
        """Answer, but do not say yet that a model is served."""
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.start()

    async def ready(self) -> None:
        """Say that the model is served."""
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float) -> None:
        """Finish the calls under way, for so many seconds."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)

    async def _set_health(self, state: Any) -> None:
        for name in ("", *SERVICES):
            await self._health.set(name, state)


Method = Callable[[Any, Any, Context], Awaitable[Any]]


def _with_status(method: Method) -> Method:
    """Turn exceptions of a method into gRPC's status."""

    @functools.wraps(method)
    async def call(self: Any, request: Any, context: Context) -> Any:
        try:
            return await method(self, request, context)
        except Exception as error:
            problem = status.of(error)
            if not isinstance(error, RequestError) or error.is_ours:
                self.report(f"{method.__name__}: {type(error).__name__}: {error}")
        message = problem.message
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]}...TRUNCATED"
        await context.abort(grpc.StatusCode[problem.code], message)

    return call


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata; there is nothing to classify or to regress."""

    def __init__(
        self, versions: Versions, *, options: ServerOptions, log: AccessLog, report: Report
    ):
        self.report = report
        self._versions = versions
        self._options = options
        self._log = log

    @_with_status
    async def Predict(
        self, request: predict_pb2.PredictRequest, context: Context
    ) -> predict_pb2.PredictResponse:
        """Run a signature."""
        with self._log.request("GRPC", context.peer()) as logged:
            return await self._predict(request, context, logged)

    async def _predict(
        self, request: predict_pb2.PredictRequest, context: Context, logged: LoggedRequest
    ) -> predict_pb2.PredictResponse:
        options, name = self._options, request.model_spec.name
        with self._versions.using(**_which(request)) as version:
            signature = version.servable.signature(request.model_spec.signature_name)
            wanted = _wanted(signature, request.output_filter)
            left = context.time_remaining()
            outputs = await predictions.predict(
                version,
                signature,
                functools.partial(protos.to_arrays, request.inputs, signature, limits=options),
                size=request.ByteSize(),
                timeout=min(options.request_timeout, float("inf") if left is None else left),
                options=options,
                logged=logged,
            )

        def write(outputs: predictions.Arrays) -> predict_pb2.PredictResponse:
            return predict_pb2.PredictResponse(
                model_spec=protos.spec(name, version.number, signature=signature.name),
                outputs={
                    key: protos.to_proto(array, signature.outputs[key].dtype)
                    for key, array in outputs.items()
                },
            )

        return await predictions.reply({key: outputs[key] for key in wanted}, write, options)

    @_with_status
    async def GetModelMetadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: Context
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Return the signatures."""
        which = _which(request)
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != "signature_def":
                raise invalid(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        with self._versions.using(**which) as version:
            response.model_spec.CopyFrom(protos.spec(which["name"], version.number))
            response.metadata["signature_def"].Pack(protos.signatures(version))
        return response

    @_with_status
    async def Classify(self, request: Any, context: Context) -> Any:
        """Refuse: no signature does this."""
        raise status.no_such_method("classify")

    @_with_status
    async def Regress(self, request: Any, context: Context) -> Any:
        """Refuse: no signature does this."""
        raise status.no_such_method("regress")

    MultiInference = Classify


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus; what is served is changed by writing a new version."""

    def __init__(self, versions: Versions, *, report: Report):
        self.report = report
        self._versions = versions

    @_with_status
    async def GetModelStatus(self, request: Any, context: Context) -> Any:
        """Return the state of one version or of all."""
        which = _which(request)
        if label := which.pop("label"):
            which["number"] = self._versions.number_of(label)
        return protos.status(self._versions.states(**which))

    @_with_status
    async def HandleReloadConfigRequest(self, request: Any, context: Context) -> Any:
        """Refuse: the folder is fixed when the server is started."""
        raise RequestError("UNIMPLEMENTED", "the model is chosen with --export_dir")


def _which(request: Any) -> dict[str, Any]:
    """Return the model, version and label that a request names."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    spec = request.model_spec
    number = spec.version.value if spec.HasField("version") else None
    return {"name": spec.name, "number": number, "label": spec.version_label}


def _wanted(signature: ServedSignature, output_filter: Sequence[str]) -> list[str]:
    """Return the outputs that a request asks for; all where it names none."""
    for number, name in enumerate(output_filter):
        if name not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {name} Outputs expected to be in "
                f"the set {{{','.join(signature.outputs)}}}."
            )
        if name in output_filter[:number]:
            raise invalid(f"duplicate output tensor alias: {name}")
    return list(output_filter) or list(signature.outputs)
