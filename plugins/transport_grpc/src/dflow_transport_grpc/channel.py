"""How both ends use gRPC: one method, raw bytes, no proxies."""

from __future__ import annotations

SERVICE, METHOD = "dflow.Link", "Carry"
MOST_WORD = 8 << 20
"""Bytes of a word at most, more than the largest there is: who has not shown the key yet cannot fill the memory."""
OPTIONS = (
    ("grpc.max_receive_message_length", MOST_WORD),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
"""An http_proxy of the environment is for the web; two daemons must not share a port; no link waits for another's."""
