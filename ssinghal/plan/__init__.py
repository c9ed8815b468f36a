"""The whole model on a virtual board: does it fit, where does it peak, what makes it fit. Arithmetic first, then a real run."""
