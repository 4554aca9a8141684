"""A world of nodes, network, store, disks, models and people, in one thread and in virtual time, from one seed."""
