"""The option that writes the golden files of the drawings anew."""


def pytest_addoption(parser):
    parser.addoption("--golden", action="store_true", help="write the golden files of tests/viz anew")
