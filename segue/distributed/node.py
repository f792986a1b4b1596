"""A further node of vLLM: it computes for the server on the first node, and answers no requests itself.

`--vllm-option nnodes=2 --vllm-option node_rank=1`, with the same other options as on the first node: every node draws
the tokens of a step by itself, so all must have the same logits processors.
"""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Sequence
from types import FrameType

from segue.distributed.launch import Launch, engine_config
from segue.errors import Incompatible, ModelUnavailable, SetupError

log = logging.getLogger("segue.vllm")

_RANK = "node_rank"


def is_further_node(options: Sequence[str]) -> bool:
    """Whether these options of vLLM are those of a node other than the first."""
    pairs = (option.partition("=") for option in options)
    ranks = [text.strip() for name, _, text in pairs if name.strip().replace("-", "_") == _RANK]
    return bool(ranks) and ranks[-1] not in ("", "0")


def compute(launch: Launch) -> None:
    """Load this node's part of the model and compute until the first node ends. Raises SetupError."""
    launch.prepare()
    signal.signal(signal.SIGTERM, _exit)
    try:
        config = engine_config(launch, headless=True)
        if config.parallel_config.node_rank_within_dp == 0:
            raise Incompatible(
                "a further node can hold a part of the model (tensor_parallel_size, "
                "pipeline_parallel_size), not a copy: start a server of its own for that"
            )
        from vllm.v1.executor.multiproc_executor import MultiprocExecutor

        executor = MultiprocExecutor(config, monitor_workers=False)
    except SetupError:
        raise
    except Exception as error:
        raise ModelUnavailable(f"vLLM cannot run {launch.name} on this node: {error}") from error
    parallel = config.parallel_config
    end_with(parallel.master_addr, parallel.master_port)
    try:
        executor.start_worker_monitor(inline=True)
    finally:
        executor.shutdown()


def end_with(host: str, port: int) -> None:
    """End this process when the first node's does: what listens there for nodes to meet lives as long as it computes.

    vLLM's own workers would wait for it for ever, and could not work with it once it was started again.
    """
    meeting = socket.create_connection((host, port))
    meeting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def wait() -> None:
        with meeting, contextlib.suppress(OSError):
            meeting.recv(1)
        log.error("the first node has ended, and so does this one")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="first-node-watch", daemon=True).start()


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit
