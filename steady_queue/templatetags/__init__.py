"""Template tags of the dashboard.

steady_queue.py    filters that show text, times and durations safely
"""
