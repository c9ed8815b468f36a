"""Makes the calls of each kind of step: a rule takes a ``Work`` and returns the results with their layout on the device."""
