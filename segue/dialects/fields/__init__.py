"""Reading a request: kinds of values, tables of fields, and the fields that several dialects share."""
