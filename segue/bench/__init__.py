"""Measurements, run by hand or by `segue bench`."""
