"""Links between machines over gRPC.

Without I/O: `words` (what travels), `outbox` and `inbox` (order, resuming), `handshake`. Around them: `link` (one end),
`dialer` (the end that connects), `listener` (the end that waits), `addresses`.
"""

from dflow_transport_grpc.transport import GrpcLinkTransport

__all__ = ["GrpcLinkTransport"]
