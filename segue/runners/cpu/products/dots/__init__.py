"""Integer dot products of one group: four columns a step, one output a lane. Exact, whatever instruction computes them.

Activations are in -127 … 127. Codes are unsigned, or signed numbers of 8 bits: some instructions take only unsigned
ones, and then 128 is added to them and taken back with the activations' integer sums.
"""
