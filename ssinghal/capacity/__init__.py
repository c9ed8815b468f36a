"""How far a call or a model can go before it no longer fits: searches whose both sides are real runs."""
