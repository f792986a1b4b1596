"""Products with a model's weights: from the bytes of a GGUF tensor to y = W x, in code compiled for this processor.

    target = processor.this_target()                      # which flavour; SEGUE_CPU names another
    matrices = matrix.pack(tensors, [file_bytes], target, threads)
    table = np.stack([m.descriptor for m in matrices])    # int64; a row's address goes to the kernels

In compiled code, on addresses (`product.py`):

    product(descriptor, M, a, scales, x, out, ldo, first, last)      # tiles first … last - 1 for M rows
    take_row(descriptor, index, out)                                 # one row of weights as f32

Activations are row-major and dense: a int8 [M][K] within ±127, scales [M][K/32][4]. For each 32 columns, scales has
their scale and the scale times the sum of a, as f32, then the sum of a in each half of 16 columns, as int32. A matrix
of floats reads x f32 [M][K] instead. Addresses that a matrix does not read may be 0.
`out` is f32 with `ldo` floats from row to row; outputs behind the last one are never written.
Tiles are the unit of work: the descriptor has their number (TILES) and the bytes that each one reads (TILE_BYTES).

Outputs have the same bits for every flavour, every number of rows in the step and every split of tiles (tiles/tile.py).
"""
