"""What slots hold: blocks of KV cells, which forks share, and states of layers without attention."""
