"""Studies of the dissertation: pairs of clients, layers of networks, curricula, pruning."""
