"""vLLM's communicator of CPUs as it is between machines: by TCP. Without it, processes of one machine share memory."""

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class TcpCommunicator(CpuCommunicator):  # type: ignore[misc]  # vLLM is not there when types are checked
    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return False
