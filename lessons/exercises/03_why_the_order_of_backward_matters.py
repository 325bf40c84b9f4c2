"""Exercises to lesson 3, Why the order of backward matters. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 3

A graph is a dict here. Each name stands for a number, in the order in which the numbers were made; with it stands what it was
made from, a list of pairs (name, slope), one pair for each use. b = a + a; c = b * b with a = 3, so b = 6:

    {"a": [], "b": [("a", 1.0), ("a", 1.0)], "c": [("b", 6.0), ("b", 6.0)]}
"""


def is_topological(order, graph):
    """Whether backward may visit the numbers in this order: each only after every number that was made from it.

    order: a list of all names of the graph, each once. Returns True or False.
    """
    raise NotImplementedError("is_topological: yours to write")


def count_paths(graph, start, end):
    """The number of paths by which `end` was made from `start`, two uses of one number being two paths.

    Walking them would take too long: a test has 40 sums in a row. From a number to itself there is one path. Returns an int.
    """
    raise NotImplementedError("count_paths: yours to write")


def gradients(graph, result):
    """The gradient of `result` with respect to every number of the graph.

    Returns a dict with a float for each name, in any order; 0.0 for a number that `result` was not made from. Each number may
    be visited once only: a test has 40 sums in a row.
    """
    raise NotImplementedError("gradients: yours to write")
