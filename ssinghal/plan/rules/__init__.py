"""How each kind of step is called: a rule takes a ``Work`` and returns the results as they lie."""
