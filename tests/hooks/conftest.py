from tests.support.fixtures import empty_book, nothing_registered

__all__ = ["empty_book", "nothing_registered"]
