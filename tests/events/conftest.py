from tests.support.fixtures import empty_task_record, nothing_registered

__all__ = ["empty_task_record", "nothing_registered"]
