"""Template tags of the dashboard.

steady_queue.py           filters that show text, times and durations safely
steady_queue_links.py     links between the pages
steady_queue_charts.py    charts of what the processes counted and measured
"""
