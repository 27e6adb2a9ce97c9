"""TensorFlow Serving's PredictionService and ModelService over gRPC, with health checks."""

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

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import access, predictions, protos, status
from aevnmt_tf.serving.request_parts import Arrays
from aevnmt_tf.serving.servable import ServedSignature
from aevnmt_tf.serving.server_metrics import LoggedRequest
from aevnmt_tf.serving.status import RequestError, invalid
from aevnmt_tf.serving.versions import Versions

# Longer messages are truncated, as in TensorFlow Serving: they are sent in a header.
LONGEST_MESSAGE = 1024
# When to close a connection; clients reconnect automatically.
IDLE_SECONDS, OLDEST_SECONDS = 75, 600
Context = Any  # grpc.aio.ServicerContext, which has no types
SERVICES = (
    prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name,
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
)


class GrpcServer:
    """A gRPC server for a model; make it in a running event loop."""

    def __init__(self, versions: Versions, *, max_connections: int, token: bytes | None = None):
        options = versions.options
        self._server = grpc.aio.server(
            interceptors=[access.TokenInterceptor(token)] if token else [],
            options=[
                ("grpc.max_receive_message_length", options.max_request_bytes),
                ("grpc.max_send_message_length", -1),
                # A second server on the same port would get half of the requests.
                ("grpc.so_reuseport", 0),
                # Limits for silent and stalled clients.
                ("grpc.max_allowed_incoming_connections", max_connections),
                ("grpc.server_handshake_timeout_ms", round(1000 * options.read_timeout)),
                ("grpc.max_connection_idle_ms", 1000 * IDLE_SECONDS),
                ("grpc.max_connection_age_ms", 1000 * OLDEST_SECONDS),
                ("grpc.max_connection_age_grace_ms", round(1000 * options.request_timeout)),
            ],
            maximum_concurrent_rpcs=options.max_connections,
        )
        service = ServingService(versions)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            service, self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(service, self._server)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    def listen(self, address: str, tls: tuple[bytes, bytes] | None) -> int:
        """Listen on an address, with the key and certificate of `tls`; return the port."""
        try:
            if tls is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, grpc.ssl_server_credentials([tls]))
        except RuntimeError:
            raise UserError(
                f"cannot listen on {address}: the port may be in use; give another --grpc_port."
            ) from None

    async def start(self) -> None:
        """Start to answer calls, but do not report the model as served yet."""
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.start()

    async def ready(self) -> None:
        """Report the model as served."""
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float) -> None:
        """Stop, after calls in progress have had so many seconds to finish."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)

    async def _set_health(self, state: Any) -> None:
        for name in ("", *SERVICES):
            await self._health.set(name, state)


Method = Callable[[Any, Any, Context], Awaitable[Any]]


def _with_status(method: Method) -> Method:
    """Turn exceptions of a method into a gRPC status."""

    @functools.wraps(method)
    async def call(self: "ServingService", request: Any, context: Context) -> Any:
        try:
            return await method(self, request, context)
        except Exception as error:
            problem = status.of(error)
            if problem.is_ours:
                self.versions.report(f"{method.__name__}: {type(error).__name__}: {error}")
        message = problem.message
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]}...TRUNCATED"
        await context.abort(grpc.StatusCode[problem.code], message)

    return call


def _refused(error: RequestError) -> Method:
    """Return a method that always fails."""

    async def refuse(self: "ServingService", request: Any, context: Context) -> Any:
        raise RequestError(error.code, error.message)  # a new one: tracebacks accumulate

    return _with_status(refuse)


class ServingService(
    prediction_service_pb2_grpc.PredictionServiceServicer,
    model_service_pb2_grpc.ModelServiceServicer,
):
    """Predict, GetModelMetadata and GetModelStatus; refuses the other methods."""

    def __init__(self, versions: Versions):
        self.versions = versions

    @_with_status
    async def Predict(
        self, request: predict_pb2.PredictRequest, context: Context
    ) -> predict_pb2.PredictResponse:
        """Run a signature."""
        with self.versions.metrics.request("GRPC", context.peer()) as logged:
            return await self._predict(request, context, logged)

    async def _predict(
        self, request: predict_pb2.PredictRequest, context: Context, logged: LoggedRequest
    ) -> predict_pb2.PredictResponse:
        options, name = self.versions.options, request.model_spec.name
        with self.versions.using(**_which(request)) as version:
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

        def write(outputs: Arrays) -> predict_pb2.PredictResponse:
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
        with self.versions.using(**which) as version:
            response.model_spec.CopyFrom(protos.spec(which["name"], version.number))
            response.metadata["signature_def"].Pack(protos.signatures(version))
        return response

    @_with_status
    async def GetModelStatus(self, request: Any, context: Context) -> Any:
        """Return the state of one version or of all."""
        return protos.status(self.versions.states(**_which(request)))

    Classify = MultiInference = _refused(status.no_such_method("classify"))
    Regress = _refused(status.no_such_method("regress"))
    HandleReloadConfigRequest = _refused(
        RequestError("UNIMPLEMENTED", "The model is chosen with --export_dir.")
    )


def _which(request: Any) -> dict[str, Any]:
    """Return the model, version and label of a request."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    spec = request.model_spec
    number = spec.version.value if spec.HasField("version") else None
    return {"name": spec.name, "number": number, "label": spec.version_label}


def _wanted(signature: ServedSignature, output_filter: Sequence[str]) -> list[str]:
    """Return the outputs that a request asks for; by default all."""
    for number, name in enumerate(output_filter):
        if name not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {name} Outputs expected to be in "
                f"the set {{{','.join(signature.outputs)}}}."
            )
        if name in output_filter[:number]:
            raise invalid(f"duplicate output tensor alias: {name}")
    return list(output_filter) or list(signature.outputs)
