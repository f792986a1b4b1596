"""Integer dot products of one group: four columns per step, one output per lane. Exact with every instruction set.

Activations are in -127 … 127. Codes are unsigned, or signed numbers of 8 bits. Some instructions take only unsigned
codes: then 128 is added to each code, and 128 times the integer sum of the activations is subtracted.
"""
