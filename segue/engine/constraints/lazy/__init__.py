"""Grammars that hold from a trigger on, as rules: free text, and after the trigger what is left of the grammar."""
