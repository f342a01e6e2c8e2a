"""The public interface, as an application uses it: tasks, enqueue, results, transactions, failures, checks."""
