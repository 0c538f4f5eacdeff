"""Pictures and pages that stand alone: one look for all of them."""
