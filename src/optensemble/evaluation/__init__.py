"""What may be promised, and whether it was kept: records, audits, lemmas beside observations, sample sizes."""
