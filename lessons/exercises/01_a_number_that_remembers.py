"""Exercises to lesson 1, A number that remembers. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 1

Plain Python is enough. `tinygrad-tf check 1 --watch` answers each time you save.
"""


def slope(f, x, h):
    """The slope of f at x, measured: how much f changes from x - h to x + h, over the length of that step.

    f: a function of one float; x, h: floats, h > 0. Returns a float.
    """
    raise NotImplementedError("slope: yours to write")


def product_rule(a, b, g):
    """What y = a * b sends back to a and to b when the gradient g arrives at y.

    a, b, g: floats. Returns the pair (gradient for a, gradient for b).
    """
    raise NotImplementedError("product_rule: yours to write")


def quotient_rule(a, b, g):
    """What y = a / b sends back to a and to b when the gradient g arrives at y.

    a, b, g: floats, b not 0. Returns the pair (gradient for a, gradient for b). `slope` can tell you whether you are right.
    """
    raise NotImplementedError("quotient_rule: yours to write")


def total_gradient(paths):
    """The gradient of an output with respect to an input that reaches it along several paths.

    paths: a list with one list for each path, holding the local slopes met along it, as in [[2.0, 3.0], [5.0]].
    Slopes along one path multiply; the paths add. An empty path is the input itself. Returns a float.
    """
    raise NotImplementedError("total_gradient: yours to write")
