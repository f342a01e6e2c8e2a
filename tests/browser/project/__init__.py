"""The project that the browser tests open: the admin with the dashboard, and tasks of every kind."""
