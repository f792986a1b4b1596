"""`segue bench`: load for any server in any dialect, closed or open loop, and a report."""
