from tests.support.fixtures import empty_book

__all__ = ["empty_book"]
