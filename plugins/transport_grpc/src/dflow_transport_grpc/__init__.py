"""Links between machines over gRPC.

Without I/O: `words` (what travels), `outbox` and `inbox` (order, resuming), `handshake`. Around them: `link` (one end),
`dialer` (the end that connects), `listener` (the end that waits), `addresses`, and `transport`, the front door. Nothing
is imported here, so that listing plugins imports no gRPC.
"""
