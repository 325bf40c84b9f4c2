"""Solutions to the exercises of lesson 1."""


def slope(f, x, h):
    return (f(x + h) - f(x - h)) / (2 * h)


def product_rule(a, b, g):
    return g * b, g * a


def quotient_rule(a, b, g):
    return g / b, -g * a / b**2


def total_gradient(paths):
    total = 0.0
    for path in paths:
        along = 1.0
        for local in path:
            along *= local
        total += along
    return total
