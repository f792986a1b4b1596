"""Models that tests write themselves: of any architecture, with adapters, vocabularies and a reference in numpy."""
