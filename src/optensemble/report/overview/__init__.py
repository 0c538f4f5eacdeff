"""The top of a report, for those who pay: totals over the period, foresight, who decides, typical decisions."""
