"""Graphs over several machines: each machine has a local deployment of its part, and gateways join them.

Lowest first: `talk` (what is said, as data; `serde` knows the wire format), `conversation` (requests and answers over
the control lane), `switch` (who gets which lane), `faults` (errors that come from elsewhere); then `remote_part` and
`joint_deployment` on the machine of the application, `part_host` and `daemon` on the others.
"""
