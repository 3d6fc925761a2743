"""The built-in data sets, one module per family; importing a module registers what it holds."""
