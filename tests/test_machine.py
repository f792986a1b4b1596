from pathlib import Path

import pytest

from segue.machine import kind_of_processor, memory

GIB = 1 << 30
MACHINE = {"proc/meminfo": f"MemTotal: {32 << 20} kB\nMemAvailable: {16 << 20} kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 16 * GIB),
        (  # a container
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": str(4 * GIB),
                "sys/fs/cgroup/memory.current": str(GIB),
            },
            3 * GIB,
        ),
        (  # a service of systemd, whose model's file is among what it uses
            {
                "proc/self/cgroup": "0::/system.slice/segue.service\n",
                "sys/fs/cgroup/system.slice/memory.max": "max\n",
                "sys/fs/cgroup/system.slice/memory.current": str(9 * GIB),
                "sys/fs/cgroup/system.slice/segue.service/memory.max": str(4 * GIB),
                "sys/fs/cgroup/system.slice/segue.service/memory.current": str(3 * GIB),
                "sys/fs/cgroup/system.slice/segue.service/memory.stat": f"anon 1\ninactive_file {2 * GIB}\n",
            },
            3 * GIB,
        ),
        (  # version 1; the group above has no limit, which is a large number
            {
                "proc/self/cgroup": "5:cpu:/c\n4:memory:/docker/x\n",
                "sys/fs/cgroup/memory/docker/memory.limit_in_bytes": str(2**63 - 4096),
                "sys/fs/cgroup/memory/docker/memory.usage_in_bytes": "0",
                "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": str(2 * GIB),
                "sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes": str(GIB),
                "sys/fs/cgroup/memory/docker/x/memory.stat": f"total_inactive_file {GIB // 2}\n",
            },
            3 * GIB // 2,
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": str(GIB),
                "sys/fs/cgroup/memory.current": str(2 * GIB),
            },
            0,
        ),
        ({"proc/self/cgroup": "garbage\n", "sys/fs/cgroup/memory.max": "x\n"}, 16 * GIB),
    ],
)
def test_the_least_of_machine_and_groups(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    for name, text in {**MACHINE, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory(tmp_path).available == expected


CPU = "processor : 0\nmodel name : {}\ncpu MHz : {}\nflags : fpu avx2 {}\n\nprocessor : 1\ncpu MHz : 7\n"


def test_the_kind_of_a_processor_is_its_name_and_what_it_can_do(tmp_path: Path) -> None:
    def kind(*words: str) -> str:
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc/cpuinfo").write_text(CPU.format(*words))
        return kind_of_processor(tmp_path)

    usual = kind("Xeon", "2000", "fma")
    assert kind("Xeon", "2900", "fma") == usual
    assert usual not in (kind("Core", "2000", "fma"), kind("Xeon", "2000", "avx512f"))
    (tmp_path / "proc/cpuinfo").unlink()
    assert kind_of_processor(tmp_path) != ""
