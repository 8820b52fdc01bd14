"""How both ends use gRPC: one method, raw bytes, no limits of size, no proxies."""

from __future__ import annotations

SERVICE, METHOD = "dflow.Link", "Carry"
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
"""An http_proxy of the environment is for the web; two daemons must not share a port; no link waits for another's."""
