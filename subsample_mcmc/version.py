"""The version and the name of the package, where every module can read them."""

__version__ = "0.1.0"
PACKAGE = __name__.partition(".")[0]
