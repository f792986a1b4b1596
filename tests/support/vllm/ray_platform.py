"""vLLM's platform for CPUs, with a kind of device that Ray can count: vLLM's own names none, and refuses Ray.

Found by vLLM in each of its processes as the plugin that `ray_cluster.py` writes.
"""

from vllm.platforms.cpu import CpuPlatform


class RayCpuPlatform(CpuPlatform):  # type: ignore[misc]  # vLLM is not there when types are checked
    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "tests.support.vllm.tcp_communicator.TcpCommunicator"


def name() -> str:
    """What vLLM asks its plugins for."""
    return f"{__name__}.{RayCpuPlatform.__name__}"
