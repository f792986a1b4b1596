"""Merges neighbours, the best pair first, the leftmost of equals. In n log n steps: no text takes long."""

import heapq
from collections.abc import Mapping, Sequence


def merge(parts: Sequence[str], orders: Mapping[str, float], between: str) -> list[str]:
    """What is left when nothing can be merged any more.

    `orders`: where a merge stands, the least first, by both parts with `between` between them.
    """
    symbols = [*parts]
    end, order = len(symbols), orders.get
    before, after = [*range(-1, end - 1)], [*range(1, end + 1)]
    heap: list[tuple[float, int, int, int]] = []  # order, left, right, length of both
    for right in range(1, end):
        first, second = symbols[right - 1], symbols[right]
        if (rank := order(first + between + second)) is not None:
            heap.append((rank, right - 1, right, len(first) + len(second)))
    heapq.heapify(heap)
    pop, push = heapq.heappop, heapq.heappush
    while heap:
        _, left, right, length = pop(heap)
        first, second = symbols[left], symbols[right]
        if not first or not second or len(first) + len(second) != length:
            continue  # one of them was merged meanwhile
        merged = symbols[left] = first + second
        symbols[right] = ""
        right = after[left] = after[right]
        if right < end:
            before[right] = left
            second = symbols[right]
            if (rank := order(merged + between + second)) is not None:
                push(heap, (rank, left, right, length + len(second)))
        left, right = before[left], left
        if left >= 0:
            first = symbols[left]
            if (rank := order(first + between + merged)) is not None:
                push(heap, (rank, left, right, length + len(first)))
    return [symbol for symbol in symbols if symbol]
