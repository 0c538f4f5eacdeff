"""Members: models and policies, the query of their outputs, and the validation of users' rows."""
