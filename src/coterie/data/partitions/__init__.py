"""The built-in partitions, one module per family; importing a module registers what it holds."""
