"""Data that may not move: people at several nodes, one server that adds up what the nodes send (extra ``federated``).

The estimators and the gate are those of one machine. A node answers questions out of a fixed list with the sum over its
people (`node`); the server checks and adds up the answers (`federation`) and never sees a row or a head. `flower` carries the
messages, `processes` starts Flower's SuperLink and SuperNodes, `guarantee` says what remains when nodes vanish.
"""

import os

os.environ.update({"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"})  # before Flower is imported
